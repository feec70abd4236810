"""What a policy is made of, for whoever writes or compares policies (docs/write-a-policy.md)."""

from __future__ import annotations

from rigctl.core.acquisition.outlook import Choice, Outlook, OutlookPolicy, first_point, outlook_of
from rigctl.core.asking import next_proposal
from rigctl.core.experiment.policy import BudgetSpent, Finished, NotWorthIt, Policy, Proposal
from rigctl.core.policies.check import check_policy
from rigctl.core.policies.registry import policy_class, policy_names
from rigctl.flaws import got

__all__ = [
    "BudgetSpent",
    "Choice",
    "Finished",
    "NotWorthIt",
    "Outlook",
    "OutlookPolicy",
    "Policy",
    "Proposal",
    "check_policy",
    "first_point",
    "got",
    "next_proposal",
    "outlook_of",
    "policy_class",
    "policy_names",
]
