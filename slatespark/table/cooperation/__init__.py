"""Compactions as a live client's coordinator accepts them from others: nobody is fenced, and no epoch moves.

`.compactions` is the only object that is written. From top to bottom:

    submission.py    a job of our own: submitted, scheduled by the coordinator, claimed
    outcome.py       after the hand-over: was it committed, and in which version
    claimed_job.py   a job between claim and hand-over, with its heartbeat
    job_list.py      the list of jobs: read and changed version by version
    job_rules.py     what a job must be like so that it harms no client. Pure

What a job merges, and what it keeps, is decided elsewhere (`compaction/`, `write/`). See
docs/explanation/cooperating-with-a-client.md, docs/reference/format/compactions.md.
"""
