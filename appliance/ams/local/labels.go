package local

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"landfall/appliance/fault"
	"landfall/store"
)

// Type is the type of an object with labels.
type Type string

// Types of objects with labels, as AMS names them.
const (
	OfOrganization Type = "Organization"
	OfAccount      Type = "Account"
	OfSubscription Type = "Subscription"
)

// Label is a key and a value of an organization, an account or a subscription.
type Label struct {
	Key       string    `json:"key"`
	Value     string    `json:"value"`
	Internal  bool      `json:"internal"`
	CreatedAt time.Time `json:"created_at"`
	UpdatedAt time.Time `json:"updated_at"`
}

// Bearer identifies an object with labels. The site has only one organization. The user name
// identifies an account and the cluster's ID identifies a subscription, because these stay the same
// when AMS assigns IDs.
type Bearer struct {
	Type Type
	Name string // "" for the organization
}

func (b Bearer) prefix() string { return string(b.Type) + "/" + b.Name + "/" }

var labelRows = store.NewBucket[Label]("local-labels", 1)

// CapabilityPrefix is the prefix of label keys that grant capabilities.
const CapabilityPrefix = "capability."

// Capabilities that features require. The last one is a capability of an account, the others of the
// organization.
const (
	Multiarch         = "bare_metal_installer_multiarch"
	SoftTimeouts      = "bare_metal_installer_soft_timeouts"
	IgnoreValidations = "ignore_validations"
	Admin             = "bare_metal_installer_admin"
)

// ErrLabel is returned for an invalid label.
var ErrLabel = fault.Sentinel(fault.Invalid, "the label cannot be set")

var labelForm = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._-]{0,253}[A-Za-z0-9])?$`)

const longestValue = 255 // bytes

// SetLabel creates or changes a label.
func (s *Site) SetLabel(ctx context.Context, on Bearer, wanted Label) (label Label, made bool, err error) {
	switch {
	case !labelForm.MatchString(wanted.Key):
		return label, false, fmt.Errorf("%w: its key is %q; expected letters, digits and ._-", ErrLabel, wanted.Key)
	case len(wanted.Value) > longestValue:
		return label, false, fmt.Errorf("%w: its value has %d bytes; at most %d are allowed", ErrLabel,
			len(wanted.Value),
			longestValue)
	case strings.HasPrefix(wanted.Key, CapabilityPrefix) && !wanted.Internal:
		return label, false, fmt.Errorf("%w: %s is a capability and must be internal; set \"internal\": true", ErrLabel,
			wanted.Key)
	}
	err = s.options.DB.Update(ctx, func(tx *store.Tx) error {
		now := s.options.Clock.Now().UTC()
		label, made = wanted, true
		label.CreatedAt, label.UpdatedAt = now, now
		held, err := labelRows.Get(tx, on.prefix()+wanted.Key)
		switch {
		case err == nil:
			label.CreatedAt, made = held.CreatedAt, false
		case !errors.Is(err, store.ErrNotFound):
			return err
		}
		return labelRows.Put(tx, on.prefix()+wanted.Key, &label)
	})
	return label, made, err
}

// Label returns a label. The error is ErrUnknown if the label does not exist.
func (s *Site) Label(on Bearer, key string) (*Label, error) { return labelOf(s.options.DB, on, key) }

func labelOf(db *store.DB, on Bearer, key string) (label *Label, err error) {
	err = db.View(func(tx *store.Tx) error {
		label, err = labelRows.Get(tx, on.prefix()+key)
		return err
	})
	if errors.Is(err, store.ErrNotFound) {
		return nil, unknown("label %s", key)
	}
	return label, err
}

// Labels returns the labels of an object, ordered by key.
func (s *Site) Labels(on Bearer) ([]Label, error) {
	all := []Label{}
	err := s.options.DB.View(func(tx *store.Tx) error {
		return labelRows.Each(tx, on.prefix(), func(_ string, label *Label) error {
			all = append(all, *label)
			return nil
		})
	})
	return all, err
}

// DeleteLabel deletes a label. The error is ErrUnknown if the label does not exist.
func (s *Site) DeleteLabel(ctx context.Context, on Bearer, key string) error {
	return s.options.DB.Update(ctx, func(tx *store.Tx) error {
		if !labelRows.Exists(tx, on.prefix()+key) {
			return unknown("label %s", key)
		}
		return labelRows.Delete(tx, on.prefix()+key)
	})
}

// Capable reports whether an object has a capability, which is the label capability.<type>.<name>
// with the value "true". It is not a method of [Site], because the engine calls it and is created
// before the site.
func Capable(db *store.DB, on Bearer, name string) (bool, error) {
	label, err := labelOf(db, on, CapabilityPrefix+strings.ToLower(string(on.Type))+"."+name)
	if errors.Is(err, ErrUnknown) {
		return false, nil
	}
	return err == nil && label.Value == "true", err
}

// Capable reports whether an object has a capability; see [Capable].
func (s *Site) Capable(on Bearer, name string) (bool, error) { return Capable(s.options.DB, on, name) }
