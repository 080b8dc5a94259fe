// The little of protobuf that registration and CSI need, written by hand: the programs beside this
// file build from Debian's packages alone, without protoc and without generated code.
package main

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// message is a protobuf message as it travels.
type message []byte

const (
	varint  = 0
	fixed64 = 1
	bytes   = 2
	fixed32 = 5
)

func (m *message) putUvarint(value uint64) {
	var buffer [binary.MaxVarintLen64]byte
	*m = append(*m, buffer[:binary.PutUvarint(buffer[:], value)]...)
}

func (m *message) putString(field int, value string) {
	m.putUvarint(uint64(field)<<3 | bytes)
	m.putUvarint(uint64(len(value)))
	*m = append(*m, value...)
}

func (m *message) putBool(field int, value bool) {
	// proto3 leaves a default value out.
	if value {
		m.putUvarint(uint64(field)<<3 | varint)
		m.putUvarint(1)
	}
}

var errTruncated = errors.New("protobuf message is cut short")

// strings returns the length-delimited fields of a message by number. Other fields are stepped over,
// as a protobuf reader must do with what it does not know.
func (m message) strings() (map[int][]string, error) {
	found := map[int][]string{}
	for rest := []byte(m); len(rest) > 0; {
		key, n := binary.Uvarint(rest)
		if n <= 0 {
			return nil, errTruncated
		}
		rest = rest[n:]
		var size uint64
		switch key & 7 {
		case varint:
			_, n = binary.Uvarint(rest)
			if n <= 0 {
				return nil, errTruncated
			}
			size = uint64(n)
		case fixed64:
			size = 8
		case fixed32:
			size = 4
		case bytes:
			size, n = binary.Uvarint(rest)
			if n <= 0 {
				return nil, errTruncated
			}
			rest = rest[n:]
		default:
			return nil, fmt.Errorf("protobuf wire type %d", key&7)
		}
		if uint64(len(rest)) < size {
			return nil, errTruncated
		}
		if key&7 == bytes {
			field := int(key >> 3)
			found[field] = append(found[field], string(rest[:size]))
		}
		rest = rest[size:]
	}
	return found, nil
}

// raw hands messages to grpc-go as they are. It has no name, so that the content type is plain
// application/grpc: a codec that is forced on a call otherwise adds its name to it, and the kubelet's
// calls have none.
type raw struct{}

func (raw) Marshal(v interface{}) ([]byte, error) { return *v.(*message), nil }

func (raw) Unmarshal(data []byte, v interface{}) error {
	*v.(*message) = append(message(nil), data...)
	return nil
}

func (raw) Name() string { return "" }

func (raw) String() string { return "raw" }
