package ams

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/jonboulle/clockwork"

	"landfall/appliance/ams/outbox"
	"landfall/appliance/sitekey"
	"landfall/store"
)

// PushOptions configures a push of a courier file.
type PushOptions struct {
	Client    *Client
	Clock     clockwork.Clock
	Key       *sitekey.Key // of the pushing machine
	Progress  string       // file that allows an interrupted push to continue
	Account   string       // owner of new subscriptions; "" for the account in the file or else that of the credentials
	OnReceipt func(done, all int, entry CourierEntry)
	Wait      time.Duration // quarantine; 0 for 15 minutes
}

// Push reports the clusters of a courier file to AMS by the rules of the relay. It returns the
// receipts of the clusters that it has processed. A push may be interrupted at any point and
// repeated.
func Push(ctx context.Context, file *CourierFile, options PushOptions) (*CourierFile, error) {
	if options.Wait == 0 {
		options.Wait = 15 * time.Minute
	}
	account, err := options.Client.Open(ctx)
	if err != nil {
		return nil, err
	}
	if want := file.Header.OrganizationID; want != "" && want != account.OrganizationID {
		return nil,
			fmt.Errorf("the credentials belong to organization %s, but the site's clusters belong to %s; log in to "+
				"the organization of the site", orNone(account.Organization, account.OrganizationID), want)
	}
	states, err := openProgress(options.Progress, file)
	if err != nil {
		return nil, err
	}
	t := &reconciler{
		api: options.Client, states: states, clock: options.Clock, by: byCourier, account: first(options.Account,
			file.Header.Account, account.Username),
		identity: Identity{URL: file.Header.APIURL, OrganizationID: account.OrganizationID}.String(),
		site: Site{Organization: account.OrganizationID, AccountID: account.ID,
			FinalStatus: file.Header.FinalStatus, Quarantine: options.Wait},
	}
	receipts := &CourierFile{Header: file.Header}
	receipts.Header.Kind, receipts.Header.CreatedAt = Receipts, options.Clock.Now().UTC()
	broken := 0
	var ended error
	for i, entry := range file.Entries {
		if ended = ctx.Err(); ended != nil {
			break
		}
		outcome := t.reconcile(ctx, entry.ClusterID, false)
		if ended = outcome.err; ended != nil {
			break
		}
		receipt := states.receipt(entry, outcome)
		receipts.Entries = append(receipts.Entries, receipt)
		if options.OnReceipt != nil {
			options.OnReceipt(i+1, len(file.Entries), receipt)
		}
		broken++
		if outcome.failure == nil {
			broken = 0
		}
		if broken == unreachableLimit || outcome.failure != nil && slices.Contains([]Class{Unauthorized, Intercepted,
			CredentialsChanged}, outcome.failure.Class) {
			ended = outcome.failure
			break
		}
	}
	return receipts, errors.Join(ended, states.close())
}

// outcomeLater is the outcome of a receipt about a cluster that AMS has not confirmed.
const outcomeLater = "later"

func first(texts ...string) string {
	for _, text := range texts {
		if text != "" {
			return text
		}
	}
	return ""
}

// progressFile is the StateStore of a courier. It contains the entries of the courier file,
// overlaid with the progress. The file has a line of JSON for each update.
type progressFile struct {
	file    *os.File
	entries map[string]*CourierEntry
}

// progressLine is one update.
type progressLine struct {
	ClusterID string          `json:"cluster_id"`
	Recorded  outbox.Recorded `json:"remembered"`
}

func openProgress(path string, file *CourierFile) (*progressFile, error) {
	b := &progressFile{entries: make(map[string]*CourierEntry)}
	for _, entry := range file.Entries {
		entry.Recorded.Lease = nil
		b.entries[entry.ClusterID] = &entry
	}
	var err error
	if b.file, err = os.OpenFile(path, os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600); err != nil {
		return nil, fmt.Errorf("store the progress of the push: %w", err)
	}
	if err := b.resume(path, file.Header.Export); err != nil {
		return nil, errors.Join(err, b.file.Close())
	}
	return b, nil
}

// resume reads the updates of an earlier push of the same file, and prepares the file for more. It
// removes a last line that an interruption truncated, so that the next update does not continue it.
func (b *progressFile) resume(path, export string) error {
	whole, err := b.replay(path, export)
	if err != nil {
		return fmt.Errorf("read the progress of the push: %w", err)
	}
	head, err := json.Marshal(map[string]string{"export_id": export})
	if err != nil {
		return err
	}
	if whole == 0 {
		begun, err := io.ReadAll(io.NewSectionReader(b.file, 0, int64(len(head))+1))
		if err != nil {
			return fmt.Errorf("read the progress of the push: %w", err)
		}
		if !bytes.HasPrefix(head, begun) { // another file, which must not be overwritten
			return fmt.Errorf("%s is not the progress of this push; name another file with --progress", path)
		}
	}
	if err := b.file.Truncate(whole); err != nil {
		return fmt.Errorf("store the progress of the push: %w", err)
	}
	if whole == 0 {
		return b.write(json.RawMessage(head))
	}
	return nil
}

// replay reads the updates of an earlier push. It returns the number of bytes in complete lines.
func (b *progressFile) replay(path, export string) (whole int64, err error) {
	lines := bufio.NewReader(b.file)
	var head struct {
		Export string `json:"export_id"`
	}
	length, err := readLine(lines, &head)
	if err == nil && head.Export != export {
		err = fmt.Errorf("%s belongs to another courier file; name another file with --progress", path)
	}
	for err == nil {
		whole += length
		var line progressLine
		if length, err = readLine(lines, &line); err == nil && b.entries[line.ClusterID] != nil {
			b.entries[line.ClusterID].Recorded = line.Recorded
		}
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return whole, err
}

func (b *progressFile) write(line any) error {
	text, err := json.Marshal(line)
	if err == nil {
		_, err = b.file.Write(append(text, '\n'))
	}
	if err = errors.Join(err, b.file.Sync()); err != nil {
		return fmt.Errorf("store the progress of the push: %w", err)
	}
	return nil
}

func (b *progressFile) close() error { return b.file.Close() }

// Load implements [StateStore].
func (b *progressFile) Load(_ context.Context, clusterID string) (outbox.Desired, outbox.Recorded, error) {
	entry, ok := b.entries[clusterID]
	if !ok {
		return outbox.Desired{}, outbox.Recorded{}, store.ErrNotFound
	}
	return entry.Desired, entry.Recorded, nil
}

// Modify implements [StateStore].
func (b *progressFile) Modify(_ context.Context, clusterID string, _ Note, fn func(*outbox.Desired,
	*outbox.Recorded) error) error {
	entry, ok := b.entries[clusterID]
	if !ok {
		return store.ErrNotFound
	}
	next := entry.Recorded
	if err := fn(&entry.Desired, &next); err != nil {
		return err
	}
	if err := b.write(progressLine{clusterID, next}); err != nil {
		return err
	}
	entry.Recorded = next
	return nil
}

// receipt returns the receipt of an entry.
func (b *progressFile) receipt(was CourierEntry, outcome result) CourierEntry {
	receipt := *b.entries[was.ClusterID]
	r := receipt.Recorded
	switch {
	case r.Closed == closedNever:
		receipt.Outcome = "nothing"
	case r.Closed != "":
		receipt.Outcome = r.Closed
	case r.Stop != nil && r.Stop.Kind == outbox.Attention:
		receipt.Outcome, receipt.Problem = "conflict", r.Stop.Reason
	case r.Stop != nil:
		receipt.Outcome, receipt.Problem = r.Stop.Kind, r.Stop.Reason
	case outcome.state == synced:
		receipt.Outcome = "sent"
	default:
		receipt.Outcome = outcomeLater
		if outcome.failure != nil {
			receipt.Problem = outcome.failure.Text
		}
	}
	return receipt
}

// readLine decodes a complete line and returns its length in bytes. The error is io.EOF if the file
// ends before the line does.
func readLine(lines *bufio.Reader, into any) (int64, error) {
	line, err := lines.ReadBytes('\n')
	if err != nil {
		return 0, err
	}
	return int64(len(line)), json.Unmarshal(line, into)
}
