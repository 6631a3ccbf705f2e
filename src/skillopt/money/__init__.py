"""What calls cost and may cost: amounts, a budget, the ledger that keeps it, and published prices."""

from skillopt.money.ledger import GATE_STAGE, HEDGE_STAGE, MARGIN, TEST_STAGE, Ledger
from skillopt.money.prices import Price, PriceOf, by_address, by_vendor, cost, per_million
from skillopt.money.spending import Account, Amount, Budget, Entry, Settlement, Total, account_of

__all__ = [
    "GATE_STAGE",
    "HEDGE_STAGE",
    "MARGIN",
    "TEST_STAGE",
    "Account",
    "Amount",
    "Budget",
    "Entry",
    "Ledger",
    "Price",
    "PriceOf",
    "Settlement",
    "Total",
    "account_of",
    "by_address",
    "by_vendor",
    "cost",
    "per_million",
]
