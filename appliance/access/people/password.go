package people

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/crypto/argon2"
	"golang.org/x/text/unicode/norm"

	"landfall/appliance/fault"
)

// HashCost is the cost of a hash with argon2id.
type HashCost struct {
	MemoryKiB uint32
	Passes    uint32
}

// usualCost takes some 60 ms on a laptop. It exceeds the recommendation of OWASP (19 MiB, 2
// passes), and bounds the memory of all hashes to 64 MiB.
var usualCost = HashCost{MemoryKiB: 32 << 10, Passes: 3}

const (
	hashesAtOnce  = 2
	hashesWaiting = 32 // a second of waiting
	saltBytes     = 16
	hashBytes     = 32
)

// ErrBusy is returned if more passwords must be verified than the appliance can verify soon.
var ErrBusy = fault.Sentinel(fault.Unavailable, "too many logins run at the moment; try again in a few seconds")

// hasher hashes passwords. It limits the hashes at the same time, and so their memory.
type hasher struct {
	cost    HashCost
	running chan struct{}
	queue   chan struct{} // running and waiting
	nobody  string        // the hash with which the password of an unknown account is compared
}

func newHasher(cost HashCost) *hasher {
	if cost == (HashCost{}) {
		cost = usualCost
	}
	h := &hasher{cost: cost, running: make(chan struct{}, hashesAtOnce),
		queue: make(chan struct{}, hashesAtOnce+hashesWaiting)}
	// No password has this hash: it is random.
	h.nobody = format(cost, random(saltBytes), random(hashBytes))
	return h
}

func random(bytes int) []byte {
	b := make([]byte, bytes)
	_, _ = rand.Read(b) // never fails
	return b
}

func (h *hasher) hash(ctx context.Context, password string) (string, error) {
	salt := random(saltBytes)
	sum, err := h.argon2id(ctx, h.cost, password, salt)
	if err != nil {
		return "", err
	}
	return format(h.cost, salt, sum), nil
}

// verify compares a password with a hash.
func (h *hasher) verify(ctx context.Context, hashed, password string) (bool, error) {
	cost, salt, want, err := parse(hashed)
	if err != nil {
		return false, err
	}
	if len(password) > longestPassword {
		password = "" // the hash still takes its time
	}
	got, err := h.argon2id(ctx, cost, password, salt)
	if err != nil {
		return false, err
	}
	return subtle.ConstantTimeCompare(got, want) == 1 && password != "", nil
}

// argon2id returns the hash of a password. Its error is ErrBusy or that of ctx.
func (h *hasher) argon2id(ctx context.Context, cost HashCost, password string, salt []byte) ([]byte, error) {
	select {
	case h.queue <- struct{}{}:
		defer func() { <-h.queue }()
	default:
		return nil, ErrBusy
	}
	select {
	case h.running <- struct{}{}:
		defer func() { <-h.running }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	return argon2.IDKey(norm.NFC.Bytes([]byte(password)), salt, cost.Passes, cost.MemoryKiB, 1, hashBytes), nil
}

// format returns a hash in the PHC string format.
func format(cost HashCost, salt, sum []byte) string {
	return fmt.Sprintf("$argon2id$v=%d$m=%d,t=%d,p=1$%s$%s", argon2.Version, cost.MemoryKiB, cost.Passes,
		base64.RawStdEncoding.EncodeToString(salt), base64.RawStdEncoding.EncodeToString(sum))
}

// errHash does not contain the hash.
var errHash = errors.New("the stored hash of a password is damaged; set the password again with landfall user reset")

func parse(hashed string) (cost HashCost, salt, sum []byte, err error) {
	parts := strings.Split(hashed, "$")
	if len(parts) != 6 || parts[0] != "" || parts[1] != "argon2id" || parts[2] != fmt.Sprintf("v=%d", argon2.Version) {
		return cost, nil, nil, errHash
	}
	if _, err := fmt.Sscanf(parts[3], "m=%d,t=%d,p=1", &cost.MemoryKiB, &cost.Passes); err != nil || cost.Passes == 0 {
		return cost, nil, nil, errHash
	}
	salt, err = base64.RawStdEncoding.DecodeString(parts[4])
	if err != nil {
		return cost, nil, nil, errHash
	}
	sum, err = base64.RawStdEncoding.DecodeString(parts[5])
	if err != nil || len(sum) != hashBytes {
		return cost, nil, nil, errHash
	}
	return cost, salt, sum, nil
}
