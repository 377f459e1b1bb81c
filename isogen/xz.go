package isogen

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/ulikunitz/xz"
)

// unxz decompresses the xz stream at the start of b, up to limit bytes. It also returns the bytes
// after the stream.
//
// The header of a block may request a dictionary of up to 4 GiB, which the decoder would allocate.
// A dictionary never needs to be larger than the uncompressed block, so unxz reduces it in the
// headers. The chunks contain their uncompressed sizes, so unxz rejects data above the limit before
// decompressing it.
func unxz(b []byte, limit int) (data, rest []byte, err error) {
	w := xzWalk{in: bytes.Clone(b)}
	if err := w.stream(); err != nil {
		return nil, nil, err
	}
	if w.unpacked > int64(limit) {
		return nil, nil, errTooMuch(limit)
	}
	z, err := xz.ReaderConfig{SingleStream: true, DictCap: 1 << 12}.NewReader(bytes.NewReader(w.in[:w.at]))
	if err != nil {
		return nil, nil, err
	}
	data, err = readLimited(z, limit)
	return data, b[w.at:], err
}

// xzWalk parses an xz stream without decompressing it (The .xz File Format 1.2.1; LZMA2 chunks as
// in the Linux kernel's lib/xz/xz_dec_lzma2.c).
type xzWalk struct {
	in       []byte
	at       int
	unpacked int64 // uncompressed size of the blocks so far, bytes
}

// errXZForm reports a stream that the kernel does not support and that xz does not write by
// default.
var errXZForm = errors.New("the kernel does not support the format of the stream")

// take returns the next n bytes.
func (w *xzWalk) take(n int) ([]byte, error) {
	if n > len(w.in)-w.at {
		return nil, fmt.Errorf("the stream is truncated: %w", io.ErrUnexpectedEOF)
	}
	b := w.in[w.at : w.at+n]
	w.at += n
	return b, nil
}

// align skips to the next multiple of four.
func (w *xzWalk) align(from int) error {
	_, err := w.take((4 - (w.at-from)%4) % 4)
	return err
}

func (w *xzWalk) stream() error {
	header, err := w.take(12)
	if err != nil {
		return err
	}
	checkSizes := map[byte]int{0: 0, 1: 4, 4: 8, 10: 32} // none, CRC32, CRC64, SHA-256
	checkSize, ok := checkSizes[header[7]]
	if !ok {
		return errXZForm
	}
	for {
		if w.at >= len(w.in) {
			_, err := w.take(1)
			return err
		}
		if w.in[w.at] == 0 {
			return w.index()
		}
		if err := w.block(checkSize); err != nil {
			return err
		}
	}
}

// block parses a block and reduces its dictionary to the minimum size.
func (w *xzWalk) block(checkSize int) error {
	header, err := w.take((int(w.in[w.at]) + 1) * 4)
	if err != nil {
		return err
	}
	dictionary := xzDictionaryAt(header)
	if dictionary < 0 || dictionary >= len(header)-4 {
		return errXZForm
	}
	if sum := len(header) - 4; crc32.ChecksumIEEE(header[:sum]) != binary.LittleEndian.Uint32(header[sum:]) {
		return errors.New("the header of a block is damaged")
	}
	start := w.at
	unpacked, err := w.chunks()
	if err != nil {
		return err
	}
	w.unpacked += unpacked
	if err := w.align(start); err != nil {
		return err
	}
	for code := byte(0); code < header[dictionary]; code++ {
		if int64(2|code&1)<<(code/2+11) >= unpacked {
			header[dictionary] = code
			binary.LittleEndian.PutUint32(header[len(header)-4:], crc32.ChecksumIEEE(header[:len(header)-4]))
			break
		}
	}
	_, err = w.take(checkSize)
	return err
}

// chunks parses the LZMA2 chunks of a block and returns their uncompressed size in bytes.
func (w *xzWalk) chunks() (unpacked int64, err error) {
	for {
		c, err := w.take(1)
		if err != nil {
			return 0, err
		}
		control := c[0]
		switch {
		case control == 0:
			return unpacked, nil
		case control > 2 && control < 0x80:
			return 0, errXZForm
		}
		sizes, err := w.take(2)
		if err != nil {
			return 0, err
		}
		size := int(binary.BigEndian.Uint16(sizes)) + 1
		packed := size
		if control >= 0x80 {
			size += int(control&0x1F) << 16
			if sizes, err = w.take(2); err != nil {
				return 0, err
			}
			packed = int(binary.BigEndian.Uint16(sizes)) + 1
			if control >= 0xC0 {
				packed++ // new properties follow
			}
		}
		if _, err := w.take(packed); err != nil {
			return 0, err
		}
		unpacked += int64(size)
	}
}

// index parses the index and the footer. The decoder checks their content.
func (w *xzWalk) index() error {
	start := w.at
	if _, err := w.take(1); err != nil {
		return err
	}
	records, err := w.number()
	for ; records > 0 && err == nil; records-- {
		if _, err = w.number(); err == nil {
			_, err = w.number()
		}
	}
	if err == nil {
		err = w.align(start)
	}
	if err == nil {
		_, err = w.take(4 + 12) // checksum, footer
	}
	return err
}

// number reads a number of up to nine bytes.
func (w *xzWalk) number() (uint64, error) {
	v, n := binary.Uvarint(w.in[w.at:min(len(w.in), w.at+9)])
	if n <= 0 {
		return 0, fmt.Errorf("the stream is truncated: %w", io.ErrUnexpectedEOF)
	}
	w.at += n
	return v, nil
}

// xzDictionaryAt returns the index of the byte with the dictionary size in the header of a block
// (sections 3.1 and 5.3.1). It returns -1 if the block has filters other than a single LZMA2
// filter.
func xzDictionaryAt(block []byte) int {
	if len(block) < 8 || block[1]&0x03 != 0 {
		return -1
	}
	i := 2
	for _, present := range []byte{0x40, 0x80} { // compressed and uncompressed size
		if block[1]&present == 0 {
			continue
		}
		_, n := binary.Uvarint(block[i:])
		if n <= 0 {
			return -1
		}
		i += n
	}
	if len(block) < i+3 || block[i] != 0x21 || block[i+1] != 1 {
		return -1
	}
	return i + 2
}
