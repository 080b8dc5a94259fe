"""The little of protobuf that registration and CSI need, written by hand: no protoc, no generated code."""


def uvarint(value):
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def embedded(field, data):
    return uvarint(field << 3 | 2) + uvarint(len(data)) + data


def string(field, value):
    return embedded(field, value.encode())


def number(field, value):
    # proto3 leaves a default value out.
    return uvarint(field << 3) + uvarint(value) if value else b""


def boolean(field, value):
    return number(field, int(value))


def mapping(field, values):
    return b"".join(embedded(field, string(1, key) + string(2, value)) for key, value in values.items())


def strings(message):
    """The length-delimited fields by number; fields of other types are stepped over."""
    found = {}
    at = 0

    def read_uvarint():
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    try:
        while at < len(message):
            key = read_uvarint()
            field, kind = key >> 3, key & 7
            if kind == 0:
                read_uvarint()
            elif kind in (1, 5):
                at += 8 if kind == 1 else 4
            elif kind == 2:
                size = read_uvarint()
                found.setdefault(field, []).append(message[at : at + size].decode())
                at += size
            else:
                raise ValueError(f"protobuf wire type {kind}")
    except IndexError:
        raise ValueError("protobuf message is cut short") from None
    if at > len(message):
        raise ValueError("protobuf message is cut short")
    return found
