"""Turns at a full queue."""

from enlcn.serve.turns import Turns


def test_the_refused_go_before_those_who_come_later():
    turns = Turns(8)
    assert not turns.admits("a", 0, now=0)
    turns.refuse("a", until=3)
    assert not turns.admits("b", 0, now=0)
    turns.refuse("b", until=3)
    assert not turns.admits("late", 1, now=1)  # one place, two before it
    assert not turns.admits("b", 1, now=1)  # a is before b
    assert turns.admits("a", 1, now=1)
    assert turns.admits("b", 1, now=1)
    assert turns.admits("late", 1, now=1)


def test_a_turn_is_not_kept_for_ever():
    turns = Turns(8)
    turns.refuse("gone", until=3)
    assert not turns.admits("b", 1, now=2.9)
    assert turns.admits("b", 1, now=3.1)


def test_being_refused_again_keeps_the_turn():
    turns = Turns(8)
    turns.refuse("a", until=3)
    turns.refuse("b", until=3)
    turns.refuse("a", until=6)
    assert [turns.before(name) for name in ("a", "b", "c")] == [0, 1, 2]
    assert turns.admits("a", 1, now=2)


def test_half_of_the_queue_is_kept_at_most():
    turns = Turns(8)
    for number in range(1000):
        turns.refuse(f"vanished {number}", until=99)
    assert not turns.admits("new", 4, now=1)
    assert turns.admits("new", 5, now=1)
