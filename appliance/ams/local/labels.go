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

// Type is what bears labels.
type Type string

// The types that bear labels, as AMS writes them.
const (
	OfOrganization Type = "Organization"
	OfAccount      Type = "Account"
	OfSubscription Type = "Subscription"
)

// Label is a key and a value on an organization, an account or a subscription.
type Label struct {
	Key       string    `json:"key"`
	Value     string    `json:"value"`
	Internal  bool      `json:"internal"`
	CreatedAt time.Time `json:"created_at"`
	UpdatedAt time.Time `json:"updated_at"`
}

// Bearer is one that bears labels. The site has one organization, whatever its id; an account is
// known by its user name and a subscription by its cluster's id, because those stay when AMS gives
// ids of its own.
type Bearer struct {
	Type Type
	Name string // "" of the organization
}

func (b Bearer) prefix() string { return string(b.Type) + "/" + b.Name + "/" }

var labelRows = store.NewBucket[Label]("local-labels", 1)

// CapabilityPrefix is what the keys of labels begin with that are capabilities.
const CapabilityPrefix = "capability."

// The capabilities that gate features: those of the organization but for the last, which is of an
// account.
const (
	Multiarch         = "bare_metal_installer_multiarch"
	SoftTimeouts      = "bare_metal_installer_soft_timeouts"
	IgnoreValidations = "ignore_validations"
	Admin             = "bare_metal_installer_admin"
)

// ErrLabel is the error of a label that can't be set.
var ErrLabel = fault.Sentinel(fault.Invalid, "the label can not be set")

var labelForm = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._-]{0,253}[A-Za-z0-9])?$`)

const longestValue = 255 // bytes

// SetLabel makes a label or gives it another value.
func (s *Site) SetLabel(ctx context.Context, on Bearer, wanted Label) (label Label, made bool, err error) {
	switch {
	case !labelForm.MatchString(wanted.Key):
		return label, false, fmt.Errorf("%w: its key is %q; it takes letters, digits and ._-", ErrLabel, wanted.Key)
	case len(wanted.Value) > longestValue:
		return label, false, fmt.Errorf("%w: its value has %d bytes; at most %d are taken", ErrLabel, len(wanted.Value),
			longestValue)
	case strings.HasPrefix(wanted.Key, CapabilityPrefix) && !wanted.Internal:
		return label, false, fmt.Errorf("%w: %s is a capability, which is internal; say \"internal\": true", ErrLabel,
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

// Label finds one label; ErrUnknown when there is none.
func (s *Site) Label(on Bearer, key string) (label *Label, err error) {
	err = s.options.DB.View(func(tx *store.Tx) error {
		label, err = labelRows.Get(tx, on.prefix()+key)
		return err
	})
	if errors.Is(err, store.ErrNotFound) {
		return nil, unknown("label %s", key)
	}
	return label, err
}

// Labels lists the labels of one, by key.
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

// DeleteLabel removes a label; ErrUnknown when there is none.
func (s *Site) DeleteLabel(ctx context.Context, on Bearer, key string) error {
	return s.options.DB.Update(ctx, func(tx *store.Tx) error {
		if !labelRows.Exists(tx, on.prefix()+key) {
			return unknown("label %s", key)
		}
		return labelRows.Delete(tx, on.prefix()+key)
	})
}

// Capable tells whether one has a capability: the label capability.<type>.<name> of the value
// "true".
func (s *Site) Capable(on Bearer, name string) (bool, error) {
	label, err := s.Label(on, CapabilityPrefix+strings.ToLower(string(on.Type))+"."+name)
	if errors.Is(err, ErrUnknown) {
		return false, nil
	}
	return err == nil && label.Value == "true", err
}
