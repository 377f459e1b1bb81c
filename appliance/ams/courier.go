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

// leaseFor is how long a courier may be on its way before the relay takes over.
const leaseFor = 7 * 24 * time.Hour

// trusted keys sign the receipts that are taken; a key lies under its fingerprint.
var trustedKeys = store.NewBucket[trustedKey]("courier-keys", 1)

type trustedKey struct {
	Key sitekey.Public `json:"key"`
	At  time.Time      `json:"at"`
}

// ExportFile writes what AMS has yet to be told as a courier's file, and leases it to that courier.
// It returns the file and its id.
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
		return outbox.DesiredRows.Each(tx, "", func(clusterID string, d *outbox.Desired) error {
			recorded, err := loadRecorded(tx, clusterID)
			if err != nil || recorded.Closed != "" || recorded.Done(d) || recorded.Stopped(d, now) != nil {
				return err
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

// Revoke ends the leases of a courier that does not come back, or of all with "".
func (r *Relay) Revoke(ctx context.Context, export string) error {
	err := r.options.DB.Update(ctx, func(tx *store.Tx) error {
		return outbox.RecordedRows.Each(tx, "", func(id string, recorded *outbox.Recorded) error {
			if recorded.Lease == nil || export != "" && recorded.Lease.Export != export {
				return nil
			}
			recorded.Lease = nil
			return outbox.RecordedRows.Put(tx, id, recorded)
		})
	})
	if err != nil {
		return err
	}
	return r.again()
}

// again looks at everything anew.
func (r *Relay) again() error {
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

// Imported is what came of receipts.
type Imported struct {
	Told    int `json:"told"`    // of which AMS knows more now than was known here
	Already int `json:"already"` // that said nothing new
	Stopped int `json:"stopped"` // that need attention
	Unknown int `json:"unknown"` // of clusters that this site does not have
}

// ErrUntrusted is the error of receipts signed with a key that this site does not know.
var ErrUntrusted = fault.Sentinel(fault.Conflict, "the receipts are signed with a key that this site does not trust")

// ImportReceipts takes a courier's receipts. A key that is not known yet is trusted if trust is its
// fingerprint.
func (r *Relay) ImportReceipts(ctx context.Context, from io.Reader, trust string) (Imported, error) {
	came, err := r.receive(ctx, from, trust)
	r.options.Metrics.courier(Receipts, err)
	return came, err
}

func (r *Relay) receive(ctx context.Context, from io.Reader, trust string) (Imported, error) {
	file, err := ReadCourier(from, Receipts)
	if err != nil {
		return Imported{}, err
	}
	h := file.Header
	fingerprint := h.Key.Fingerprint()
	if h.Site != r.options.Key.Public().Fingerprint() {
		return Imported{}, refuseFile("it answers an export of another site (%s)", h.Site)
	}
	if h.APIURL != r.options.URL {
		return Imported{}, refuseFile("it tells of %s, and this site of %s", h.APIURL, r.options.URL)
	}
	var came Imported
	err = r.options.DB.Update(ctx, func(tx *store.Tx) error {
		came = Imported{}
		if trust == fingerprint {
			if err := trustedKeys.Put(tx, fingerprint, &trustedKey{h.Key, r.options.Clock.Now().UTC()}); err != nil {
				return err
			}
		}
		if !trustedKeys.Exists(tx, fingerprint) {
			return fmt.Errorf("%w: it is %s; compare it with what landfall ams push showed, and import with --trust %s",
				ErrUntrusted, fingerprint, fingerprint)
		}
		return nil
	})
	for i := 0; err == nil && i < len(file.Entries); i++ {
		err = r.take(ctx, h.Export, &file.Entries[i], &came)
	}
	return came, errors.Join(err, r.again())
}

// take applies one receipt; whether it comes for the first time or again makes no difference.
func (r *Relay) take(ctx context.Context, export string, receipt *CourierEntry, came *Imported) error {
	carried := receipt.Recorded
	outcome := func() {}
	note := Note{Subscription: carried.SubscriptionID, Entry: &JournalEntry{
		Cluster: receipt.ClusterID, At: r.options.Clock.Now().UTC(), Op: "receipt", Outcome: receipt.Outcome,
		Generation:   carried.Generation,
		Subscription: carried.SubscriptionID, Text: receipt.Problem, By: byCourier,
	}}
	states := &dbState{r.options.DB, r.options.Clusters}
	err := states.Change(ctx, receipt.ClusterID, note, func(d *outbox.Desired, held *outbox.Recorded) error {
		if held.Lease != nil && held.Lease.Export == export && receipt.Outcome != "later" {
			held.Lease = nil
		}
		switch {
		case held.Closed != "" && !(held.Closed == closedNever && carried.SubscriptionID != "" && carried.Closed == ""),
			held.Generation >= receipt.Desired.Generation,
			receipt.Outcome == "later" && carried.SubscriptionID == "" && carried.Mark == nil:
			if held.SubscriptionID == "" && held.Closed == "" {
				held.SubscriptionID = carried.SubscriptionID
			}
			outcome = func() { came.Already++ }
			return nil
		case carried.Stop != nil && carried.Stop.Generation == d.Generation:
			outcome = func() { came.Stopped++ }
		default:
			outcome = func() { came.Told++ }
		}
		lease := held.Lease
		*held = carried
		held.Lease = lease
		if held.Closed != "" && d.Generation != receipt.Desired.Generation {
			held.Closed, held.ClosedAt = "", time.Time{} // it changed here since; the relay looks again
		}
		return nil
	})
	if errors.Is(err, store.ErrNotFound) {
		came.Unknown++
		return nil
	}
	outcome()
	return err
}
