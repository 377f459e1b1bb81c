package iso9660

import (
	"encoding/binary"
	"fmt"
)

// maxContinuations is the maximum number of continuation areas of a record.
const maxContinuations = 16

// suspSkip returns the number of bytes to skip at the start of every system use field. The number
// is in the SP entry of the root directory's own record (SUSP 5.3).
func suspSkip(b []byte) int {
	if len(b) >= 7 && string(b[:2]) == "SP" && b[4] == 0xBE && b[5] == 0xEF {
		return int(b[6])
	}
	return 0
}

// rockRidgeName returns the name in the NM entries of a system use field and of its continuation
// areas, or "" (RRIP 4.1.4, SUSP 5.1).
func (d *decoder) rockRidgeName(b []byte, record int64) (string, error) {
	b = b[min(d.suspAt, len(b)):]
	var name []byte
	for range maxContinuations {
		var ce []byte
		for len(b) >= 4 {
			n := int(b[2])
			if n < 4 || n > len(b) {
				break
			}
			switch string(b[:2]) {
			case "NM":
				if n > 5 && b[4]&^1 == 0 { // bits 1 and 2 mean "." and ".."
					name = append(name, b[5:n]...)
				}
			case "CE":
				if n >= 28 {
					ce = b[:n]
				}
			case "ST":
				n = len(b)
			}
			b = b[n:]
		}
		if ce == nil {
			break
		}
		at := int64(binary.LittleEndian.Uint32(ce[4:]))*SectorSize + int64(binary.LittleEndian.Uint32(ce[12:]))
		size := min(int64(binary.LittleEndian.Uint32(ce[20:])), SectorSize)
		if d.bytes += size; d.bytes > maxDirectoryBytes {
			return "", &FormatError{at, "the continuation areas are too large"}
		}
		var err error
		if b, err = d.read(at, size, "a continuation area"); err != nil {
			return "", err
		}
	}
	if len(name) > maxName {
		return "", &FormatError{record, fmt.Sprintf("a file name has more than %d bytes", maxName)}
	}
	return string(name), nil
}
