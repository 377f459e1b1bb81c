package ams

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/segmentio/ksuid"

	"landfall/appliance/ams/outbox"
	"landfall/appliance/fault"
	"landfall/appliance/sitekey"
	"landfall/store"
)

// leaseFor is the duration of a courier's lease. After it, the relay reports the clusters itself.
const leaseFor = 7 * 24 * time.Hour

// trustedKeys stores the keys whose receipts are accepted, by their fingerprint.
var trustedKeys = store.NewBucket[trustedKey]("courier-keys", 1)

type trustedKey struct {
	Key sitekey.Public `json:"key"`
	At  time.Time      `json:"at"`
}

// ExportFile writes the waiting clusters into a courier file and leases them to the courier. It
// returns the file and its ID.
func (r *Relay) ExportFile(ctx context.Context) (file []byte, id string, err error) {
	file, id, err = r.export(ctx)
	r.options.Metrics.courier(Export, err)
	return file, id, err
}

func (r *Relay) export(ctx context.Context) ([]byte, string, error) {
	now := r.options.Clock.Now().UTC()
	id := ksuid.New().String()
	r.mu.Lock()
	identity := r.identity
	r.mu.Unlock()
	file := CourierFile{Header: CourierHeader{
		Kind: Export, Export: id, CreatedAt: now, Site: r.options.Key.Public().Fingerprint(), APIURL: r.options.URL,
		OrganizationID: identity.OrganizationID, Account: r.options.Account, FinalStatus: r.options.FinalStatus,
	}}
	err := r.options.DB.Update(ctx, func(tx *store.Tx) error {
		file.Entries = nil
		// A file without the organization could be pushed for any one.
		if _, err := identities.Get(tx, identityKey); err != nil && !errors.Is(err, store.ErrNotFound) {
			return fmt.Errorf("read the organization of the site: %w", err)
		}
		return outbox.DesiredRows.Each(tx, "", func(clusterID string, d *outbox.Desired) error {
			recorded, err := loadRecorded(tx, clusterID)
			if err != nil || recorded.Closed != "" || recorded.Done(d) || recorded.Stopped(d, now) != nil {
				return store.SkipDamaged(err)
			}
			recorded.Lease = &outbox.Lease{Export: id, Generation: d.Generation, Until: now.Add(leaseFor)}
			file.Entries = append(file.Entries, CourierEntry{ClusterID: clusterID, Desired: *d, Recorded: recorded})
			return outbox.PutRecorded(tx, clusterID, d, &recorded)
		})
	})
	if err != nil {
		return nil, "", err
	}
	var out bytes.Buffer
	if err := WriteCourier(&out, r.options.Key, file); err != nil {
		return nil, "", err
	}
	return out.Bytes(), id, nil
}

// ErrNoExport is returned for an export that no cluster waits for.
var ErrNoExport = fault.Sentinel(fault.NotFound, "no cluster waits for the receipts of the export")

// Revoke ends the leases of one export, or of all exports if export is "".
func (r *Relay) Revoke(ctx context.Context, export string) error {
	revoked := 0
	err := r.options.DB.Update(ctx, func(tx *store.Tx) error {
		revoked = 0
		return outbox.RecordedRows.Each(tx, "", func(id string, recorded *outbox.Recorded) error {
			if recorded.Lease == nil || export != "" && recorded.Lease.Export != export {
				return nil
			}
			recorded.Lease = nil
			revoked++
			return outbox.RecordedRows.Put(tx, id, recorded)
		})
	})
	if err != nil {
		return err
	}
	if export != "" && revoked == 0 {
		return fmt.Errorf("%w %q", ErrNoExport, export)
	}
	return r.rescan()
}

// rescan schedules all waiting clusters, including those with an ended lease.
func (r *Relay) rescan() error {
	r.mu.Lock()
	for _, j := range r.jobs {
		if j.leased {
			j.leased, j.next = false, time.Time{}
		}
	}
	r.mu.Unlock()
	_, err := r.scan()
	r.wakeUp()
	return err
}

// Imported counts the receipts of one import.
type Imported struct {
	Applied int `json:"told"`    // clusters that AMS has confirmed
	Later   int `json:"later"`   // clusters that the courier could not report completely
	Already int `json:"already"` // receipts that were imported before
	Stopped int `json:"stopped"` // clusters that need attention
	Unknown int `json:"unknown"` // clusters that this site does not have
}

// ErrUntrusted is returned for receipts with the signature of an untrusted key.
var ErrUntrusted = fault.Sentinel(fault.Conflict, "the receipts are signed with a key that this site does not trust")

// ImportReceipts imports a courier's receipts. A key that is not trusted yet becomes trusted if its
// fingerprint is trust.
func (r *Relay) ImportReceipts(ctx context.Context, from io.Reader, trust string) (Imported, error) {
	counts, err := r.receive(ctx, from, trust)
	r.options.Metrics.courier(Receipts, err)
	return counts, err
}

func (r *Relay) receive(ctx context.Context, from io.Reader, trust string) (Imported, error) {
	file, err := ReadCourier(from, Receipts, func(h CourierHeader) error { return r.acceptReceipts(ctx, h, trust) })
	if err != nil {
		return Imported{}, err
	}
	var counts Imported
	for i := 0; err == nil && i < len(file.Entries); i++ {
		err = r.applyReceipt(ctx, file.Header.Export, &file.Entries[i], &counts)
	}
	return counts, errors.Join(err, r.rescan())
}

// acceptReceipts checks that receipts answer an export of this site and have a trusted signature.
func (r *Relay) acceptReceipts(ctx context.Context, h CourierHeader, trust string) error {
	fingerprint := h.Key.Fingerprint()
	if h.Site != r.options.Key.Public().Fingerprint() {
		return refuseFile("it answers an export of another site (%s)", h.Site)
	}
	if h.APIURL != r.options.URL {
		return refuseFile("it is for %s, but this site reports to %s", h.APIURL, r.options.URL)
	}
	return r.options.DB.Update(ctx, func(tx *store.Tx) error {
		if trust == fingerprint {
			if err := trustedKeys.Put(tx, fingerprint, &trustedKey{h.Key, r.options.Clock.Now().UTC()}); err != nil {
				return err
			}
		}
		if !trustedKeys.Exists(tx, fingerprint) {
			return fmt.Errorf("%w: the key is %s; compare it with the output of landfall ams push, and import with "+
				"--trust %s",
				ErrUntrusted, fingerprint, fingerprint)
		}
		return nil
	})
}

// applyReceipt applies a receipt. A repeated receipt changes nothing.
func (r *Relay) applyReceipt(ctx context.Context, export string, receipt *CourierEntry, counts *Imported) error {
	carried := receipt.Recorded
	outcome := func() {}
	note := Note{Subscription: carried.SubscriptionID, Entry: &JournalEntry{
		Cluster: receipt.ClusterID, At: r.options.Clock.Now().UTC(), Op: "receipt", Outcome: receipt.Outcome,
		Generation:   carried.Generation,
		Subscription: carried.SubscriptionID, Text: receipt.Problem, By: byCourier,
	}}
	states := &dbState{r.options.DB, r.options.Clusters}
	err := states.Modify(ctx, receipt.ClusterID, note, func(d *outbox.Desired, held *outbox.Recorded) error {
		if held.Lease != nil && held.Lease.Export == export && receipt.Outcome != outcomeLater {
			held.Lease = nil
		}
		switch {
		case held.Closed != "" && !(held.Closed == closedNever && carried.SubscriptionID != "" && carried.Closed == ""),
			held.Generation >= receipt.Desired.Generation,
			receipt.Outcome == outcomeLater && carried.SubscriptionID == "" && carried.Mark == nil,
			answered(held, carried.Stop):
			if held.SubscriptionID == "" && held.Closed == "" {
				held.SubscriptionID = carried.SubscriptionID
			}
			outcome = func() { counts.Already++ }
			if receipt.Outcome == outcomeLater && held.Generation < receipt.Desired.Generation {
				outcome = func() { counts.Later++ }
			}
			return nil
		case carried.Stop != nil && carried.Stop.Generation == d.Generation:
			outcome = func() { counts.Stopped++ }
		case receipt.Outcome == outcomeLater:
			outcome = func() { counts.Later++ }
		default:
			outcome = func() { counts.Applied++ }
		}
		lease := held.Lease
		*held = carried
		held.Lease = lease
		if held.Closed != "" && d.Generation != receipt.Desired.Generation {
			// the cluster changed since the export, so the relay decides again
			held.Closed, held.ClosedAt = "", time.Time{}
		}
		return nil
	})
	if errors.Is(err, store.ErrNotFound) {
		counts.Unknown++
		return nil
	}
	outcome()
	return err
}

// answered reports whether a person has already decided the conflict of a receipt. The receipt was
// then imported before, or comes from a push that did not know the decision.
func answered(held *outbox.Recorded, stop *outbox.Stop) bool {
	return stop != nil && stop.Disputed != (outbox.Fields{}) && stop.Disputed == held.Overwrite
}
