package tokens

import (
	"crypto/rand"
	"hash/crc32"
	"strings"
)

// The text of a token is "lf_", 43 random characters (256 bits), and the checksum of both: CRC-32
// in 6 characters. The prefix and the checksum let secret scanners recognize a token. The
// characters are those of base 62, so that a double click selects the whole text.
const (
	prefix         = "lf_"
	alphabet       = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	randomLength   = 43
	checksumLength = 6
	textLength     = len(prefix) + randomLength + checksumLength
)

// newText returns the text of a new token.
func newText() string {
	text := append(make([]byte, 0, textLength), prefix...)
	random := make([]byte, textLength)
	for len(text) < len(prefix)+randomLength {
		_, _ = rand.Read(random) // never fails
		for _, b := range random {
			// 248 is a multiple of 62. Larger bytes would make some characters more probable.
			if b < 248 && len(text) < len(prefix)+randomLength {
				text = append(text, alphabet[b%62])
			}
		}
	}
	sum := checksum(string(text))
	return string(append(text, sum[:]...))
}

func checksum(text string) (encoded [checksumLength]byte) {
	sum := crc32.ChecksumIEEE([]byte(text))
	for i := range encoded {
		encoded[checksumLength-1-i] = alphabet[sum%62]
		sum /= 62
	}
	return encoded
}

// Valid reports whether a text has the form of a token, with a correct checksum.
func Valid(text string) bool {
	if len(text) != textLength || !strings.HasPrefix(text, prefix) {
		return false
	}
	for i := len(prefix); i < textLength; i++ {
		if strings.IndexByte(alphabet, text[i]) < 0 {
			return false
		}
	}
	body := text[:len(prefix)+randomLength]
	sum := checksum(body)
	return string(sum[:]) == text[len(body):]
}
