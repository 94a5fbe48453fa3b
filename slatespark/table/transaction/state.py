"""How far a transaction has come."""

from __future__ import annotations

from enum import Enum
from typing import Final

from slatespark.errors import InvalidRequestError


class TransactionState(Enum):
    """How far a transaction has come."""

    OPEN = "open"
    PREPARED = "prepared"
    COMMITTED = "committed"
    ROLLED_BACK = "rolled back"
    FAILED = "failed"  # nothing was published
    UNKNOWN = "unknown"  # the store stopped answering during the commit, which may have landed

    def require(self, *states: TransactionState, call: str) -> None:
        """Refuse a call in another state than these.

        Raises
        ------
        InvalidRequestError
            When the transaction is in another state.
        """
        if self not in states:
            raise InvalidRequestError(f"{call}: the transaction {_TEXTS[self]}.", todo="Begin another transaction.")


LIVE: Final = (TransactionState.OPEN, TransactionState.PREPARED)
UNENDED: Final = (*LIVE, TransactionState.FAILED, TransactionState.UNKNOWN)
_TEXTS: Final = {
    TransactionState.OPEN: "is open",
    TransactionState.PREPARED: "is prepared: it can be read, committed or rolled back",
    TransactionState.COMMITTED: "was committed",
    TransactionState.ROLLED_BACK: "was rolled back",
    TransactionState.FAILED: "has failed: it can only be rolled back",
    TransactionState.UNKNOWN: "may have been committed: the store did not answer",
}
