package ams

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"landfall/appliance/ams/outbox"
	"landfall/store"
)

// Planned lists the calls for a cluster, provided that AMS has not changed since Landfall last read
// it.
type Planned struct {
	ClusterID string   `json:"cluster_id"`
	Name      string   `json:"name"`
	Calls     []string `json:"calls"`            // in order; empty if no change waits
	Reason    string   `json:"reason,omitempty"` // reason why a person must decide first
}

// Plan returns the calls for all waiting clusters, or for one cluster, without contacting AMS. It
// decides by the last recorded state of AMS.
func (r *Relay) Plan(ctx context.Context, clusterID string) ([]Planned, error) {
	entries := []CourierEntry{}
	err := r.options.DB.View(func(tx *store.Tx) error {
		return each(tx, clusterID, func(id string, d *outbox.Desired) error {
			recorded, err := loadRecorded(tx, id)
			if err == nil && recorded.Closed == "" && !(recorded.Done(d) && d.DeletedAt.IsZero()) {
				entries = append(entries, CourierEntry{ClusterID: id, Desired: *d, Recorded: recorded})
			}
			return err
		})
	})
	if err != nil {
		return nil, err
	}
	plans := make([]Planned, 0, len(entries))
	for _, one := range entries {
		plan, err := planOf(ctx, r.reconciler(), one)
		if err != nil {
			return nil, err
		}
		plans = append(plans, plan)
	}
	return plans, nil
}

// PlanPush returns the calls that a push of a courier file would make. It decides by the state of
// AMS at the export.
func PlanPush(ctx context.Context, file *CourierFile, options PushOptions) ([]Planned, error) {
	plans := make([]Planned, 0, len(file.Entries))
	for _, one := range file.Entries {
		one.Recorded.Lease = nil
		plan, err := planOf(ctx, &reconciler{
			clock: options.Clock, by: byCourier, account: cmp.Or(options.Account, file.Header.Account),
			identity: Identity{URL: file.Header.APIURL, OrganizationID: file.Header.OrganizationID}.String(),
			site: Site{Organization: file.Header.OrganizationID, FinalStatus: file.Header.FinalStatus,
				Quarantine: cmp.Or(options.Wait, 15*time.Minute)},
		}, one)
		if err != nil {
			return nil, err
		}
		plans = append(plans, plan)
	}
	return plans, nil
}

func planOf(ctx context.Context, t *reconciler, of CourierEntry) (Planned, error) {
	simulated := &dryRun{entry: of, calls: []string{}}
	t.api, t.states = simulated, simulated
	outcome := t.reconcile(ctx, of.ClusterID, false)
	plan := Planned{ClusterID: of.ClusterID, Name: of.Desired.DisplayName, Calls: simulated.calls}
	switch stop := simulated.entry.Recorded.Stop; {
	case outcome.err != nil:
		return plan, outcome.err
	case outcome.state == stopped && stop != nil:
		plan.Reason = stop.Reason
	case outcome.state == leased:
		plan.Reason = "The cluster is in a courier file."
	case outcome.state == waiting && !outcome.until.IsZero():
		plan.Reason = "AMS may have created the subscription already; Landfall only searches for it until " +
			outcome.until.UTC().Format("15:04:05Z") + "."
	}
	return plan, nil
}

// dryRun replaces AMS and the StateStore for one cluster. It contains the last recorded state of
// AMS and records the calls.
type dryRun struct {
	entry CourierEntry
	row   *Row
	gone  bool
	calls []string
}

// Load implements [StateStore].
func (p *dryRun) Load(context.Context, string) (outbox.Desired, outbox.Recorded, error) {
	return p.entry.Desired, p.entry.Recorded, nil
}

// Modify implements [StateStore].
func (p *dryRun) Modify(_ context.Context, _ string, _ Note, fn func(*outbox.Desired,
	*outbox.Recorded) error) error {
	return fn(&p.entry.Desired, &p.entry.Recorded)
}

var errNoRow = errors.New("AMS has no such subscription")

// Get implements api.
func (p *dryRun) Get(_ context.Context, id string) (*Row, error) {
	if p.gone {
		return nil, nil
	}
	if p.row == nil {
		held := p.entry.Recorded
		row, ok := readRow(held.Remote)
		if !ok || row.ID != id {
			row = Row{ClusterID: p.entry.ClusterID, PlanCategory: assistedInstall}
		}
		row.ID, row.Status = id, cmp.Or(row.Status, held.AckedStatus, statusReserved)
		row.DisplayName, row.ExternalClusterID = cmp.Or(row.DisplayName, held.Acked.DisplayName),
			cmp.Or(row.ExternalClusterID, held.Acked.ExternalClusterID)
		row.ConsoleURL = cmp.Or(row.ConsoleURL, held.Acked.ConsoleURL)
		p.row = &row
	}
	shown := *p.row
	return &shown, nil
}

// Search implements api.
func (p *dryRun) Search(context.Context, string, string) ([]Row, error) {
	if p.row == nil || p.gone {
		p.calls = append(p.calls, "search for an existing subscription")
		return []Row{}, nil
	}
	return []Row{*p.row}, nil
}

// Create implements api.
func (p *dryRun) Create(_ context.Context, account, clusterID, name string) (*Row, error) {
	p.calls = append(p.calls, fmt.Sprintf("create a subscription named %s, for %s", name,
		cmp.Or(account, "the logged-in account")))
	p.row, p.gone = &Row{ID: "(new)", Status: statusReserved, ClusterID: clusterID, PlanCategory: assistedInstall,
		DisplayName: name}, false
	made := *p.row
	return &made, nil
}

// Update implements api.
func (p *dryRun) Update(_ context.Context, id string, fields outbox.Fields, status string) (*Row, error) {
	if p.row == nil {
		return nil, errNoRow
	}
	text := "change subscription " + id + ":"
	for _, part := range []struct {
		name, value string
		into        *string
	}{
		{"name", fields.DisplayName, &p.row.DisplayName}, {"cluster's own id", fields.ExternalClusterID,
			&p.row.ExternalClusterID},
		{"console's URL", fields.ConsoleURL, &p.row.ConsoleURL}, {"status", status, &p.row.Status},
	} {
		if part.value != "" {
			text += " " + part.name + " " + part.value + ","
			*part.into = part.value
		}
	}
	p.calls = append(p.calls, text[:len(text)-1])
	shown := *p.row
	return &shown, nil
}

// Delete implements api.
func (p *dryRun) Delete(_ context.Context, id string) error {
	p.calls = append(p.calls, "delete subscription "+id)
	p.gone = true
	return nil
}
