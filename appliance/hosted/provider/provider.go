// Package provider is the resource provider of hosted clusters: it stores what people ask for,
// writes the bundles for the management cluster in the same transaction, and computes the states of
// resources from the reports that come back.
//
//	provider.go       Service, subscriptions
//	clusters.go       hosted clusters
//	nodepools.go      node pools
//	externalauths.go  external authentication configurations
//	operations.go     asynchronous operations
//	credentials.go    kubeconfigs of administrators and their revocation
//	settle.go         from a cluster's rows to its bundles and its state
//	follow.go         settles clusters after reports
//	management.go     management clusters
//	show.go           resources as clients see them
//
// Every change of a cluster ends in settle, in the caller's transaction. So a crash leaves either
// the resource, its operation and its bundles, or none of them.
//
// Design: docs/design.md#hosted-control-planes.
package provider

import (
	"context"
	"crypto/rand"
	"encoding/base32"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jonboulle/clockwork"
	"github.com/segmentio/ksuid"

	"landfall/appliance/fault"
	"landfall/appliance/hosted/arm"
	"landfall/appliance/hosted/controlplane"
	"landfall/appliance/hosted/record"
	"landfall/appliance/sitekey"
	"landfall/store"
)

// Location is the name of the region in which the resource provider says it is.
const Location = "landfall"

// Release is a release that the site offers for hosted clusters.
type Release struct {
	Version string // X.Y.Z
	Image   string // pull spec
	Default bool
}

// Site has the inputs of hosted clusters that all of them share.
type Site interface {
	// Releases returns the releases for hosted clusters.
	Releases() []Release
	// HostedSite returns the pull secret, the SSH key, the CAs and the mirrors of the site.
	HostedSite() (controlplane.Site, error)
}

// Options configures Open.
type Options struct {
	DB      *store.DB
	Site    Site
	Secrets *sitekey.Box // seals keys and kubeconfigs
	Clock   clockwork.Clock
	Logger  *slog.Logger
	// Connected reports whether a management cluster is connected; nil: none ever is.
	Connected func(consumer string) bool
	// ClockWrong reports whether the clock of a management cluster was set back, so that its
	// reports do not count yet; nil: none was.
	ClockWrong func(consumer string) bool
}

// Service is the resource provider.
type Service struct {
	Options
}

// Open returns the resource provider. It makes the site's subscription at the first start.
func Open(ctx context.Context, options Options) (*Service, error) {
	s := &Service{options}
	if s.Connected == nil {
		s.Connected = func(string) bool { return false }
	}
	if s.ClockWrong == nil {
		s.ClockWrong = func(string) bool { return false }
	}
	if subscription, err := s.Seeded(); err != nil || subscription != nil {
		return s, err
	}
	return s, s.DB.Update(ctx, func(tx *store.Tx) error {
		seeded := &record.Subscription{ID: uuid.NewString(), State: "Registered", Tenant: uuid.NewString(),
			Seeded:     true,
			Registered: s.now().Format(time.RFC1123), Created: s.now()}
		return record.Subscriptions.Put(tx, seeded.ID, seeded)
	})
}

func (s *Service) now() time.Time { return s.Clock.Now().UTC() }

// Seeded returns the subscription that the appliance made at its first start.
func (s *Service) Seeded() (found *record.Subscription, err error) {
	err = s.DB.View(func(tx *store.Tx) error {
		found, err = seeded(tx)
		return err
	})
	return found, err
}

func seeded(tx *store.Tx) (found *record.Subscription, err error) {
	err = record.Subscriptions.Each(tx, "", func(_ string, row *record.Subscription) error {
		if row.Seeded {
			found = row
			return store.ErrStop
		}
		return nil
	})
	return found, err
}

// Caller is who sends a request.
type Caller struct {
	Name    string // of the account or the token
	Tenant  string // X-Ms-Home-Tenant-Id
	Client  string // X-Ms-Client-Object-Id
	Version string // api-version
	// SystemData is the header X-Ms-Arm-Resource-System-Data, or nil.
	SystemData *record.SystemData
}

// The states of subscriptions.
var subscriptionStates = []string{"Registered", "Unregistered", "Warned", "Deleted", "Suspended"}

// SubscriptionDocument is a subscription as clients see it.
type SubscriptionDocument struct {
	State            string          `json:"state"`
	RegistrationDate string          `json:"registrationDate,omitempty"`
	Properties       json.RawMessage `json:"properties,omitempty"`
}

// GetSubscription returns a subscription.
func (s *Service) GetSubscription(id string) (document *SubscriptionDocument, err error) {
	if err := arm.CheckSubscription(id); err != nil {
		return nil, err
	}
	err = s.DB.View(func(tx *store.Tx) error {
		row, err := record.GetSubscription(tx, id)
		if err != nil || row == nil {
			if err == nil {
				err = arm.Errorf(fault.NotFound, arm.CodeSubscriptionNotFound, "There is no subscription %s.", id)
			}
			return err
		}
		document = showSubscription(row)
		return nil
	})
	return document, err
}

func showSubscription(row *record.Subscription) *SubscriptionDocument {
	document := &SubscriptionDocument{row.State, row.Registered, row.Properties}
	if len(document.Properties) == 0 {
		document.Properties, _ = json.Marshal(map[string]string{"tenantId": row.Tenant}) // texts never fail
	}
	return document
}

// PutSubscription makes a subscription known, or changes its state.
func (s *Service) PutSubscription(ctx context.Context, id string, document *SubscriptionDocument) (
	result *SubscriptionDocument, created bool, err error) {
	if err := arm.CheckSubscription(id); err != nil {
		return nil, false, err
	}
	if !slices.Contains(subscriptionStates, document.State) {
		return nil, false, arm.Fieldf("state", "The state %q of the subscription is not one of %s.", document.State,
			strings.Join(subscriptionStates, ", "))
	}
	var properties struct {
		TenantID string `json:"tenantId"`
	}
	if len(document.Properties) > 0 {
		if err := json.Unmarshal(document.Properties, &properties); err != nil {
			return nil, false, arm.Fieldf("properties", "The properties of the subscription can't be read: %s.", err)
		}
	}
	err = s.DB.Update(ctx, func(tx *store.Tx) error {
		row, err := record.GetSubscription(tx, id)
		if err != nil {
			return err
		}
		if created = row == nil; created {
			row = &record.Subscription{ID: strings.ToLower(id), Created: s.now()}
		}
		row.State, row.Registered, row.Properties = document.State, document.RegistrationDate, document.Properties
		if properties.TenantID != "" {
			row.Tenant = properties.TenantID
		}
		result = showSubscription(row)
		return record.Subscriptions.Put(tx, row.ID, row)
	})
	return result, created, err
}

// checkSubscription returns an error unless requests for a subscription's resources are permitted.
func checkSubscription(tx *store.Tx, id string, changes bool) (*record.Subscription, error) {
	if err := arm.CheckSubscription(id); err != nil {
		return nil, err
	}
	row, err := record.GetSubscription(tx, id)
	switch {
	case err != nil:
		return nil, err
	case row == nil:
		own, err := seeded(tx)
		if err != nil {
			return nil, err
		}
		advice := ""
		if own != nil {
			advice = " Use the subscription of this appliance, " + own.ID + "."
		}
		return nil, arm.Errorf(fault.Invalid, arm.CodeInvalidSubscriptionState,
			"The subscription %s is not registered.%s", id, advice)
	case row.State == "Unregistered" || row.State == "Deleted":
		return nil, arm.Errorf(fault.Invalid, arm.CodeInvalidSubscriptionState,
			"The subscription %s is in the state %s.",
			id, row.State)
	case changes && row.State != "Registered":
		return nil, arm.Errorf(fault.Conflict, arm.CodeInvalidSubscriptionState,
			"The subscription %s is in the state %s; "+
				"resources can only be read and deleted.", id, row.State)
	}
	return row, nil
}

// CheckSubscription returns an error unless requests for a subscription's resources are permitted.
func (s *Service) CheckSubscription(id string, changes bool) error {
	return s.DB.View(func(tx *store.Tx) error {
		_, err := checkSubscription(tx, id, changes)
		return err
	})
}

// Result is the answer to a change.
type Result struct {
	Resource  arm.Document // as clients see it
	Operation *record.Operation
	Created   bool
}

// change is one change of a cluster and what belongs to it in a transaction.
type change struct {
	s      *Service
	tx     *store.Tx
	caller Caller
	now    time.Time
}

// update runs a change in a transaction. With writes, the subscription must permit changes.
func (s *Service) update(ctx context.Context, id arm.ID, caller Caller, writes bool, fn func(*change) error) error {
	if err := id.Check(); err != nil {
		return err
	}
	return s.DB.Update(ctx, func(tx *store.Tx) error {
		subscription, err := checkSubscription(tx, id.Subscription, writes)
		if err != nil {
			return err
		}
		if caller.Tenant == "" {
			caller.Tenant = subscription.Tenant
		}
		return fn(&change{s, tx, caller, s.now()})
	})
}

// stamp records who changed a resource.
func (ch *change) stamp(resource *record.Resource, created bool) {
	given := record.SystemData{}
	if ch.caller.SystemData != nil {
		given = *ch.caller.SystemData
	}
	data := &resource.System
	if created {
		*data = record.SystemData{CreatedBy: given.CreatedBy, CreatedByType: given.CreatedByType,
			CreatedAt: given.CreatedAt}
		if data.CreatedBy == "" {
			data.CreatedBy = ch.caller.Name
		}
		if data.CreatedAt.IsZero() {
			data.CreatedAt = ch.now
		}
		resource.Created = ch.now
	}
	data.LastModifiedBy, data.LastModifiedByType = given.LastModifiedBy, given.LastModifiedByType
	if data.LastModifiedBy == "" {
		data.LastModifiedBy = ch.caller.Name
	}
	if data.LastModifiedAt = given.LastModifiedAt; data.LastModifiedAt.IsZero() {
		data.LastModifiedAt = ch.now
	}
	resource.Updated = ch.now
}

// newCID returns a new ID of Clusters Service: a KSUID in base32 with 32 lower-case characters.
func newCID(now time.Time) (string, error) {
	id, err := ksuid.NewRandomWithTime(now)
	if err != nil {
		return "", fmt.Errorf("make the ID of a cluster: %w", err)
	}
	return strings.ToLower(base32.HexEncoding.WithPadding(base32.NoPadding).EncodeToString(id.Bytes())), nil
}

// newEtcdKey returns 32 random bytes, sealed with the site's key.
func (s *Service) newEtcdKey() (string, error) {
	key := make([]byte, 32)
	_, _ = rand.Read(key) // never fails
	return s.Secrets.Seal(encode64(key))
}

// notFound returns the error for a resource that does not exist.
func notFound(id arm.ID) error {
	return arm.Errorf(fault.NotFound, arm.CodeResourceNotFound, "The resource %s does not exist.", id)
}

func conflict(format string, args ...any) error {
	return arm.Errorf(fault.Conflict, arm.CodeConflict, format, args...)
}
