"""Tiny chains on digits in float64, run by the plain loop and by the fleet."""

import dataclasses

import torch
from digits_chains import CHAIN, changed

from prunecast import data
from prunecast.fleet import ChainFailed, ChainJob, FleetOptions, fleet_events
from prunecast.pruning import (
    StopRules,
    chain_folder,
    chain_trainer,
    close_level,
    open_chain,
    open_level,
    slicing_of,
    train_level,
    why_ended,
)
from prunecast.training import stepper

CPU = torch.device("cpu")
ANY = FleetOptions(most_packs=2, budget=2.0, threads=1, smallest_group=4)


def chain(**changes):
    return changed(CHAIN, **changes)


def doubled():
    """The digits with images in float64."""
    digits = data.load("digits")
    for source in (digits.train, digits.test):
        source.mean, source.scale = source.mean.double(), source.scale.double()
    return digits


def open_double(chain_spec, store, dataset):
    opened = open_chain(chain_spec, store, dataset)
    return dataclasses.replace(opened, untrained=opened.untrained.double())


def jobs_of(specs, *, cap=3, at_chance=0, dataset=None):
    digits = dataset or doubled()
    return [
        ChainJob(
            spec=own,
            rules=StopRules(level_cap=cap, at_chance=at_chance),
            dataset=lambda: digits,
            keep_weights=True,
        )
        for own in specs
    ]


def fleet(jobs, store, options=ANY, opener=open_double):
    """The finished levels of a fleet, whose first failure is raised."""
    for event in fleet_events(jobs, store, device=CPU, options=options, opener=opener):
        if isinstance(event, ChainFailed):
            raise event.problem
        yield event


def plain(jobs, store):
    """The same chains one after the other, level by level, from where they stand."""
    for job in jobs:
        opened = open_double(job.spec, store, job.dataset())
        bench = chain_trainer(opened)
        records = opened.folder.records()
        while not why_ended(records, job.rules):
            level = open_level(opened, records)
            slicing = slicing_of(opened, level)
            own = chain_trainer(opened, slicing=slicing) if slicing else bench
            end = train_level(opened, level, own, stepper(own), slicing)
            records.append(close_level(opened, records, level, end, keep_weights=True))


def folders(jobs, store):
    return [chain_folder(store, job.spec) for job in jobs]
