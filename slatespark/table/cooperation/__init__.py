"""Compactions as a live client's coordinator accepts them from others: nobody is fenced, and no epoch moves.

`.compactions` is the only object that is written. From top to bottom:

    load_commit.py       a load, from its uploaded files to the commit by the client
    segment_drop.py      dropping a segment: the coordinator empties the tree
    load_merge.py        its rows and those of the layers that it replaces
    load_plan.py         which layers these are, and which files are merged. Pure
    unflushed_rows.py    rows that are older than a load and would win over it
    submission.py        one job: submitted, scheduled by the coordinator, claimed
    coordinator_wait.py  the wait until the client takes it, and why it did not
    following.py         the version that the commit of a job in the way will make. Pure
    abandoned_jobs.py    jobs in the way that nobody works on any more
    outcome.py           after the hand-over: was it committed, and in which version
    claimed_job.py       a job between claim and hand-over, with its heartbeat
    job_list.py          the list of jobs: read and changed version by version
    rivals.py            jobs of others on its sources between hand-over and commit. Pure
    job_rules.py         what a job must be like so that it harms no client. Pure

What a compaction merges, and what it keeps, is decided elsewhere (`compaction/`). See
docs/explanation/cooperating-with-a-client.md, docs/explanation/cooperative-writes.md,
docs/reference/format/compactions.md.
"""
