"""Fair sharing among clients."""

from enlcn.serve.fair_queue import FairQueue


def take_all(queue):
    return [queue.take() for _ in range(len(queue))]


def test_one_client_is_served_in_order():
    queue = FairQueue()
    for number in range(5):
        queue.put("a", number, cost=10 - number)
    assert take_all(queue) == [0, 1, 2, 3, 4]


def test_clients_share_by_cost_not_by_count():
    queue = FairQueue()
    for number in range(4):
        queue.put("large", f"L{number}", cost=4)
    for number in range(8):
        queue.put("small", f"s{number}", cost=1)
    order = take_all(queue)
    # While one large picture is computed, four small ones of the other client are.
    assert order.index("s3") < order.index("L1") < order.index("s5")


def test_a_newcomer_does_not_wait_for_a_long_row_and_cannot_claim_the_past():
    queue = FairQueue()
    for number in range(100):
        queue.put("busy", number, cost=1)
    for _ in range(50):
        queue.take()
    for number in range(3):
        queue.put("new", f"n{number}", cost=1)
    order = take_all(queue)
    assert order.index("n0") <= 1
    assert order.index("n2") >= 4  # it shares from now on; it is not repaid for the time before it came


def test_removed_items_are_gone_and_counted():
    queue = FairQueue()
    items = [object() for _ in range(4)]
    for item in items:
        queue.put("a", item, cost=1)
    assert queue.remove(items[1])
    assert not queue.remove(items[1])
    assert queue.waiting("a") == 3
    assert queue.order() == [items[0], items[2], items[3]]
    assert take_all(queue) == [items[0], items[2], items[3]]
    assert queue.waiting("a") == 0
    assert not queue._free_at
