package broker

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jonboulle/clockwork"

	"landfall/appliance/authority"
	"landfall/appliance/fault"
	"landfall/appliance/hosted/bundle"
	"landfall/store"
)

// lifetime is the validity of a consumer's certificate after it was issued. It is long, because
// nobody may be at the site to replace the certificate.
const lifetime = 5 * 365 * 24 * time.Hour

// Credential is a certificate that a consumer's agent may use. Its key is not stored.
type Credential struct {
	Consumer string    `json:"consumer"`
	Serial   string    `json:"serial"`    // hexadecimal
	Issued   time.Time `json:"issued_at"` // UTC
	Until    time.Time `json:"until"`     // UTC
	// Used is the time of the first connection with the certificate in UTC, or zero.
	Used time.Time `json:"used_at,omitzero"`
	// Revoked is the time from which the broker refuses the certificate in UTC, or zero.
	Revoked time.Time `json:"revoked_at,omitzero"`
}

var credentials = store.NewBucket[Credential]("hosted-credentials", 1)

func credentialKey(consumer, serial string) string { return consumer + "/" + serial }

// Credentials issues, verifies and revokes the certificates of consumers.
type Credentials struct {
	db        *store.DB
	authority *authority.Clients
	clock     clockwork.Clock
}

// NewCredentials returns the credentials in a store.
func NewCredentials(db *store.DB, clients *authority.Clients, clock clockwork.Clock) *Credentials {
	return &Credentials{db, clients, clock}
}

// Issued is a new certificate with its key, as PEM. The key exists nowhere else.
type Issued struct {
	Credential
	Certificate, Key []byte
}

// Issue issues a certificate for a consumer. The consumer's other certificates remain valid until
// they are revoked, so that an agent can change from one to the other without a gap.
func (c *Credentials) Issue(ctx context.Context, consumer string) (*Issued, error) {
	now := c.clock.Now().UTC()
	certificate, chain, key, err := c.authority.Issue(consumer, now.Add(lifetime))
	if err != nil {
		return nil, err
	}
	issued := &Issued{Credential{Consumer: consumer, Serial: serialOf(certificate), Issued: now,
		Until: certificate.NotAfter}, chain, key}
	return issued, c.db.Update(ctx, func(tx *store.Tx) error {
		if _, err := bundle.GetConsumer(tx, consumer); err != nil {
			return err
		}
		return credentials.Put(tx, credentialKey(consumer, issued.Serial), &issued.Credential)
	})
}

// Revoke makes the broker refuse certificates of a consumer: the one with a serial number, or all
// but that one if others is set. An empty serial number with others revokes all.
func (c *Credentials) Revoke(ctx context.Context, consumer, serial string, others bool) error {
	now := c.clock.Now().UTC()
	return c.db.Update(ctx, func(tx *store.Tx) error {
		found, err := revoke(tx, consumer, now, func(held *Credential) bool {
			return (held.Serial == serial) != others
		})
		if err == nil && !found && !others {
			return fault.New(fault.NotFound, "The consumer %s has no certificate %s.", consumer, serial)
		}
		return err
	})
}

// RevokeAll makes the broker refuse all certificates of a consumer.
func RevokeAll(tx *store.Tx, consumer string, now time.Time) error {
	_, err := revoke(tx, consumer, now, func(*Credential) bool { return true })
	return err
}

// revoke makes the broker refuse the wanted certificates of a consumer. It reports whether there
// are any.
func revoke(tx *store.Tx, consumer string, now time.Time, wanted func(*Credential) bool) (found bool, err error) {
	err = credentials.Each(tx, consumer+"/", func(key string, held *Credential) error {
		if !wanted(held) {
			return nil
		}
		found = true
		if !held.Revoked.IsZero() {
			return nil
		}
		held.Revoked = now
		return credentials.Put(tx, key, held)
	})
	return found, err
}

// ListCredentials returns the certificates of a consumer, in the order of their serial numbers.
func ListCredentials(tx *store.Tx, consumer string) ([]Credential, error) {
	all := []Credential{}
	err := credentials.Each(tx, consumer+"/", func(_ string, held *Credential) error {
		all = append(all, *held)
		return nil
	})
	return all, err
}

// WasUsed reports whether a consumer's agent has ever connected with one of its certificates.
func WasUsed(tx *store.Tx, consumer string) (bool, error) {
	all, err := ListCredentials(tx, consumer)
	return slices.ContainsFunc(all, func(held Credential) bool { return !held.Used.IsZero() }), err
}

// RemoveCredentials removes the certificates of a consumer that is deleted.
func RemoveCredentials(tx *store.Tx, consumer string) error {
	return credentials.Each(tx, consumer+"/", func(key string, _ *Credential) error {
		return credentials.Delete(tx, key)
	})
}

// serialOf returns a serial number in hexadecimal.
func serialOf(certificate *x509.Certificate) string {
	return fmt.Sprintf("%x", certificate.SerialNumber)
}

// Identify returns the consumer of a certificate. The error says why the certificate is refused.
func (c *Credentials) Identify(certificate *x509.Certificate) (consumer string, err error) {
	consumer, serial := certificate.Subject.CommonName, serialOf(certificate)
	now := c.clock.Now()
	if _, err := certificate.Verify(x509.VerifyOptions{Roots: c.authority.Roots(), CurrentTime: now,
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}); err != nil {
		return consumer, fmt.Errorf("the certificate of %s is not valid: %w; issue another one", consumer, err)
	}
	return consumer, c.db.View(func(tx *store.Tx) error {
		if _, err := bundle.GetConsumer(tx, consumer); err != nil {
			return fmt.Errorf("the consumer %s was removed", consumer)
		}
		held, err := credentials.Get(tx, credentialKey(consumer, serial))
		switch {
		case errors.Is(err, store.ErrNotFound):
			return fmt.Errorf("the certificate %s of %s is not known here; issue another one", serial, consumer)
		case err != nil:
			return err
		case !held.Revoked.IsZero():
			return fmt.Errorf("the certificate %s of %s was revoked at %s", serial, consumer,
				held.Revoked.Format(time.RFC3339))
		}
		return nil
	})
}

// noteUse records the first use of a certificate.
func (c *Credentials) noteUse(ctx context.Context, certificate *x509.Certificate) error {
	key := credentialKey(certificate.Subject.CommonName, serialOf(certificate))
	return c.db.Update(ctx, func(tx *store.Tx) error {
		held, err := credentials.Get(tx, key)
		if err != nil || !held.Used.IsZero() {
			return err
		}
		held.Used = c.clock.Now().UTC()
		return credentials.Put(tx, key, held)
	})
}
