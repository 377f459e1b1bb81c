package bundle

import (
	"errors"
	"fmt"
	"regexp"
	"time"

	"github.com/google/uuid"

	"landfall/appliance/fault"
	"landfall/store"
)

// Consumer is a management cluster as the broker knows it. Its name is in topics and in the common
// name of its client certificate, and never changes.
type Consumer struct {
	ID      string            `json:"id"` // UUID
	Name    string            `json:"name"`
	Labels  map[string]string `json:"labels,omitempty"`
	Created time.Time         `json:"created_at"` // UTC
	Updated time.Time         `json:"updated_at"` // UTC
	// ClusterID is the cluster of this appliance that is the management cluster, or "" if another
	// program installed it.
	ClusterID string `json:"cluster_id,omitempty"`
	// Seen is the time of a message in UTC, to the second: the last one, or one less than a minute
	// before it. Zero: never.
	Seen time.Time `json:"seen_at,omitzero"`
}

var consumers = store.NewBucket[Consumer]("hosted-consumers", 1)

// ConsumerPrefix returns the prefix of the keys of consumers in the store. The rest of a key is the
// name.
func ConsumerPrefix() string { return consumers.Prefix() }

// consumerForm is what topics and DNS labels permit.
var consumerForm = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)

// GetConsumer returns the consumer with a name.
func GetConsumer(tx *store.Tx, name string) (*Consumer, error) {
	c, err := consumers.Get(tx, name)
	return c, found(err, "consumer", name)
}

// EachConsumer calls fn with the consumers in the order of their names.
func EachConsumer(tx *store.Tx, fn func(*Consumer) error) error {
	return consumers.Each(tx, "", func(_ string, c *Consumer) error { return fn(c) })
}

// CreateConsumer writes a new consumer. It sets the ID, and the name to the ID if it is empty.
func CreateConsumer(tx *store.Tx, c *Consumer, now time.Time) error {
	c.ID = uuid.NewString()
	if c.Name == "" {
		c.Name = c.ID
	}
	if !consumerForm.MatchString(c.Name) {
		return fault.New(fault.Invalid, "The name %q of the consumer is invalid; use lower-case letters, digits and "+
			"hyphens, at most 63.", c.Name)
	}
	if consumers.Exists(tx, c.Name) {
		return fault.New(fault.Conflict, "There is already a consumer %s.", c.Name)
	}
	c.Created, c.Updated = now.UTC(), now.UTC()
	return consumers.Put(tx, c.Name, c)
}

// UpdateConsumer lets change edit a consumer. The ID, the name and the time of the creation stay.
func UpdateConsumer(tx *store.Tx, name string, now time.Time, change func(*Consumer) error) (*Consumer, error) {
	c, err := GetConsumer(tx, name)
	if err != nil {
		return nil, err
	}
	before := *c
	if err := change(c); err != nil {
		return nil, err
	}
	c.ID, c.Name, c.Created, c.Updated = before.ID, before.Name, before.Created, now.UTC()
	return c, consumers.Put(tx, name, c)
}

// ErrInUse is returned by DeleteConsumer while bundles refer to the consumer.
var ErrInUse = fault.Sentinel(fault.Forbidden, "the consumer has bundles; delete its hosted clusters first")

// DeleteConsumer removes a consumer without bundles.
func DeleteConsumer(tx *store.Tx, name string) error {
	if _, err := GetConsumer(tx, name); err != nil {
		return err
	}
	used, err := IsUsed(tx, name)
	if used {
		return fmt.Errorf("consumer %s: %w", name, ErrInUse)
	}
	return errors.Join(err, consumers.Delete(tx, name))
}

// IsUsed reports whether bundles refer to a consumer, also damaged ones.
func IsUsed(tx *store.Tx, name string) (used bool, err error) {
	err = byConsumer.Keys(tx, name+"/", func(string) error {
		used = true
		return store.ErrStop
	})
	return used, err
}
