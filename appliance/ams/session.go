package ams

import (
	"context"
	"errors"
	"slices"
	"time"

	"landfall/appliance/sentence"
	"landfall/store"
)

// State is the state of the relay.
type State string

// States of the relay.
const (
	Off               State = "off"                // disabled by the configuration
	NoCredentials     State = "no-credentials"     // waits for credentials
	ByHand            State = "by-hand"            // connects only when a person requests it
	Offline           State = "offline"            // no connection; the relay tries again
	Online            State = "online"             // a session with AMS is open
	PausedCredentials State = "paused-credentials" // AMS rejects the credentials
	PausedPermission  State = "paused-permission"  // AMS forbids everything
	PausedIdentity    State = "paused-identity"    // the credentials belong to another organization than before
	PausedPerson      State = "paused-person"      // the data was copied: a person must decide which machine reports
)

// paused reports whether only a person or new credentials end the state.
func (s State) paused() bool {
	return slices.Contains([]State{PausedCredentials, PausedPermission, PausedIdentity, PausedPerson}, s)
}

// credentialsInterval is the time between two checks for new credentials during a pause.
const credentialsInterval = time.Minute

// Identity is the account for which the site reports. It is set at the first contact.
type Identity struct {
	URL              string `json:"api_url"`
	OrganizationID   string `json:"organization_id"`
	OrganizationName string `json:"organization_name,omitempty"`
	AccountID        string `json:"account_id"`
	Username         string `json:"account_username"`
	Machine          string `json:"machine,omitempty"`
}

func (i Identity) String() string { return i.URL + " " + i.OrganizationID }

var identities = store.NewBucket[Identity]("subscription-identity", 1)

const identityKey = "site"

func (r *Relay) setIdentity(identity Identity) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.identity = identity
}

// ready opens a session with AMS if necessary. It returns the time of the next attempt, and whether
// a session is open.
func (r *Relay) ready(ctx context.Context, now time.Time) (time.Time, bool) {
	r.mu.Lock()
	state, probeAt, pauseUntil, window, refused := r.state, r.probeAt, r.pauseUntil, r.connectUntil, r.lastSecret
	needed := len(r.jobs) > 0 || !window.Before(now) || r.openNow
	r.openNow = false
	r.mu.Unlock()
	switch {
	case r.options.ByHand && !now.Before(window):
		r.setState(ByHand, "The site reports to AMS only during a manual connection.")
		return time.Time{}, false
	case state == Online && now.Before(pauseUntil):
		return pauseUntil, false
	case state == Online:
		return time.Time{}, true
	case !needed && !state.paused():
		if state == Offline {
			r.noteMissingCredentials(ctx)
		}
		return time.Time{}, false
	case now.Before(probeAt):
		return probeAt, false
	}
	secret, err := r.options.Credentials.Secret(ctx)
	if state.paused() && (err != nil || secret == refused) {
		return now.Add(credentialsInterval), false
	}
	if err == nil && secret.Empty() {
		r.pause(NoCredentials, noCredentials)
		return time.Time{}, false
	}
	if err == nil {
		err = r.open(ctx)
		if used := r.options.Client.tokens.used(); !used.Empty() {
			secret = used // AMS replaced the refresh token
		}
	}
	r.mu.Lock()
	r.lastSecret = secret
	r.mu.Unlock()
	if err != nil {
		return r.sessionFailed(ctx, err), false
	}
	return time.Time{}, true
}

const noCredentials = "There are no credentials for AMS; enter them with landfall ams login or on the page."

// noteMissingCredentials sets the state NoCredentials if no cluster is queued. It logs nothing,
// because sites that never use AMS stay in this state.
func (r *Relay) noteMissingCredentials(ctx context.Context) {
	secret, err := r.options.Credentials.Secret(ctx)
	if err != nil || !secret.Empty() {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.state, r.problem, r.since = NoCredentials, noCredentials, r.options.Clock.Now()
}

// errPaused means that a person must decide before a session can be opened.
var errPaused = errors.New("paused")

// open starts a session and compares the identity with the stored one.
func (r *Relay) open(ctx context.Context) error {
	account, err := r.options.Client.Open(ctx)
	if err != nil {
		return err
	}
	now := Identity{
		URL: r.options.URL, OrganizationID: account.OrganizationID, OrganizationName: account.Organization,
		AccountID: account.ID, Username: account.Username, Machine: r.options.Machine,
	}
	r.mu.Lock()
	was := r.identity
	r.contact = r.options.Clock.Now()
	r.mu.Unlock()
	switch {
	case was == Identity{}:
	case was.String() != now.String():
		r.pause(PausedIdentity, "The credentials belong to organization "+orNone(now.OrganizationName,
			now.OrganizationID)+
			" at "+now.URL+", but this site reported for "+
			orNone(was.OrganizationName, was.OrganizationID)+" at "+was.URL+
			" so far; use credentials of that organization, or confirm the change to the new one.")
		return errPaused
	case was.Machine != "" && now.Machine != "" && was.Machine != now.Machine:
		r.pause(PausedPerson, "This data comes from another machine, which may still report to AMS; confirm that "+
			"this machine reports from now on.")
		return errPaused
	}
	if err := r.storeIdentity(ctx, now); err != nil {
		return err
	}
	r.setState(Online, "")
	return nil
}

func orNone(name, id string) string {
	if name == "" {
		return id
	}
	return name + " (" + id + ")"
}

// storeIdentity stores the account for which the site reports.
func (r *Relay) storeIdentity(ctx context.Context, identity Identity) error {
	err := r.options.DB.Update(ctx, func(tx *store.Tx) error { return identities.Put(tx, identityKey, &identity) })
	if err != nil {
		return err
	}
	r.setIdentity(identity)
	return nil
}

// setState changes the state of the relay and logs the change.
func (r *Relay) setState(state State, problem string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.options.Clock.Now()
	if r.state != state {
		r.since = now
		r.options.Logger.Info("State of the connection to AMS changed.", "state", state, "problem", problem)
	}
	r.state, r.problem = state, problem
	if state == Online {
		r.probes, r.probeAt, r.contact = 0, time.Time{}, now
		clear(r.unreachable)
		clear(r.forbidden)
	}
}

// pause stops all calls until a person or new credentials end the pause.
func (r *Relay) pause(state State, problem string) {
	r.setState(state, problem)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.probeAt = r.options.Clock.Now()
}

// sessionFailed records that a session failed and returns the time of the next attempt.
func (r *Relay) sessionFailed(ctx context.Context, err error) time.Time {
	if ctx.Err() != nil {
		return time.Time{}
	}
	failure, ok := errors.AsType[*CallError](err)
	switch {
	case errors.Is(err, errPaused):
		return r.options.Clock.Now().Add(credentialsInterval)
	case ok && failure.Class == Unauthorized:
		r.pause(PausedCredentials, failure.Text)
		return r.options.Clock.Now().Add(credentialsInterval)
	case ok && failure.Class == Forbidden:
		r.pause(PausedPermission, failure.Text)
		return r.options.Clock.Now().Add(credentialsInterval)
	}
	wait := r.backoff(r.countProbe(), probeCap)
	if !ok || failure.Class == CredentialsChanged { // a file cannot be read, which needs no call
		wait = min(wait, credentialsInterval)
	}
	if ok && failure.RetryAfter > wait {
		wait = failure.RetryAfter
	}
	r.setState(Offline, failureText(err))
	r.mu.Lock()
	defer r.mu.Unlock()
	r.probeAt = r.options.Clock.Now().Add(wait)
	return r.probeAt
}

func (r *Relay) countProbe() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.probes++
	return r.probes - 1
}

func failureText(err error) string {
	if failure, ok := errors.AsType[*CallError](err); ok {
		return failure.Text
	}
	return sentence.New(err)
}

// backoff returns a random wait. Its limit doubles with each attempt (full jitter).
func (r *Relay) backoff(attempts int, limit time.Duration) time.Duration {
	upTo := limit
	if attempts < 20 {
		upTo = min(limit, backoffBase<<attempts)
	}
	return r.options.Jitter(upTo)
}

func (r *Relay) mayContinue() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.options.Clock.Now()
	return r.state == Online && !now.Before(r.pauseUntil) && (!r.options.ByHand || now.Before(r.connectUntil))
}

// assessConnection updates the state of the connection after an attempt on a cluster.
func (r *Relay) assessConnection(id string, outcome result) {
	r.options.Metrics.attempted(outcome)
	failure := outcome.failure
	if failure == nil {
		if outcome.err == nil && outcome.state != leased {
			r.mu.Lock()
			r.contact = r.options.Clock.Now()
			clear(r.unreachable)
			clear(r.forbidden)
			r.mu.Unlock()
		}
		return
	}
	switch failure.Class {
	case Unauthorized:
		r.pause(PausedCredentials, failure.Text)
	case CredentialsChanged:
		r.renewSession(failure.Text)
	case Intercepted:
		r.offline(failure)
	case Unreachable:
		r.mu.Lock()
		r.unreachable[id] = true
		down := len(r.unreachable) >= unreachableLimit || len(r.unreachable) >= len(r.jobs)
		r.mu.Unlock()
		if down {
			r.offline(failure)
		}
	case Forbidden:
		r.mu.Lock()
		r.forbidden[id] = true
		all := failure.Banned || len(r.forbidden) >= forbiddenLimit
		r.mu.Unlock()
		if all {
			r.pause(PausedPermission, failure.Text)
		}
	case Throttled:
		if failure.RetryAfter > 0 {
			r.mu.Lock()
			r.pauseUntil = r.options.Clock.Now().Add(failure.RetryAfter)
			r.mu.Unlock()
		}
	}
}

// offline ends the session and schedules the next attempt.
func (r *Relay) offline(failure *CallError) {
	wait := r.backoff(r.countProbe(), probeCap)
	r.setState(Offline, failure.Text)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.probeAt = r.options.Clock.Now().Add(wait)
}
