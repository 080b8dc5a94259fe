"""The memory of the daemon, which depends on the size of a page."""

import re

from check import check

# Two and a half times what the daemon has with pages of 16 KB.
LIMIT = 12 << 20


@check
def the_memory_with_one_driver_is_small_with_pages_of_the_kernels_size(node):
    node.settle()
    size = int(node.run("getconf", "PAGESIZE").stdout)
    assert size == node.page_size, f"pages of {size} bytes: another kernel has booted"
    status = node.path(f"/proc/{node.pid()}/status").read_text()
    resident = int(re.search(r"VmRSS:\s+(\d+) kB", status)[1]) << 10
    print(f"# pages of {size} bytes: {resident / 1e6:.1f} MB resident with one driver", flush=True)
    assert resident < LIMIT, resident
