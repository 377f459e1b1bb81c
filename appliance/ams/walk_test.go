package ams

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/require"

	"landfall/appliance/ams/amstest"
	"landfall/appliance/ams/outbox"
	"landfall/randtest"
	"landfall/store"
)

var walks = flag.Int("walks", 120, "number of random histories that are reported to AMS; make test uses 2500")

// crash ends a process during a call.
type crash struct{}

// walk is a random history of some clusters. A process that may crash at any point reports them to
// AMS over a connection with random faults. The walk is also the StateStore; it keeps every
// committed change.
type walk struct {
	rng     *rand.Rand
	clock   *clockwork.FakeClock
	ams     *amstest.Server
	desired map[string]outbox.Desired
	replies map[string]outbox.Recorded
	faulty  bool
	trace   []string
	client  *Client
	opened  bool // the client has a session
	secret  *memoryCredentials
}

func newWalk(seed uint64, faulty bool) *walk {
	w := &walk{
		rng: rand.New(rand.NewPCG(seed, 1)), clock: clockwork.NewFakeClockAt(time.Date(2026, 3, 1, 8, 0, 0, 0,
			time.UTC)),
		desired: map[string]outbox.Desired{}, replies: map[string]outbox.Recorded{}, faulty: faulty,
		secret: &memoryCredentials{},
	}
	w.ams = amstest.New(w.clock)
	w.ams.Tombstones, w.ams.FullAnswers, w.ams.SDKStatuses = w.rng.IntN(2) == 0, w.rng.IntN(2) == 0, w.rng.IntN(2) == 0
	w.ams.RepeatMakesAnother, w.ams.Rotate = w.rng.IntN(2) == 0, w.rng.IntN(2) == 0
	w.ams.SearchLag = time.Duration(w.rng.IntN(14)) * time.Minute
	w.secret.secret.OfflineToken = w.ams.AddAccount(ours)
	w.start()
	return w
}

// start starts a new process on the data of the old one.
func (w *walk) start() {
	w.opened = false
	w.client = NewClient(ClientOptions{
		URL: amsURL, TokenURL: ssoURL, Transport: walkLine{w}, Credentials: w.secret, UserAgent: "landfall/test",
		Clock:  w.clock,
		Logger: slog.New(slog.DiscardHandler),
	})
}

// walkLine is the connection to AMS.
type walkLine struct{ *walk }

func (l walkLine) RoundTrip(r *http.Request) (*http.Response, error) {
	token := strings.HasSuffix(r.URL.Path, amstest.TokenPath)
	if l.faulty && !token && l.rng.IntN(4) == 0 {
		faults := []func(http.ResponseWriter, *http.Request, func(http.ResponseWriter)){
			amstest.DropBefore(), amstest.CommitThenDrop(), amstest.CutBody(), amstest.Status(500, 9, "general"),
			amstest.CommitThenAnswer(502, "", ""),
			amstest.HTML(), amstest.Answer(200, "application/json", `{"kind": "Other", "id": "1"}`),
			amstest.CommitThenAnswer(200, "text/html", "<html>"),
			amstest.Status(429, 1, "too fast", "Retry-After", "30"), amstest.Status(401, 15, "expired"),
			amstest.Redirect(302, "https://portal.test/"),
		}
		chosen := l.rng.IntN(len(faults))
		l.trace = append(l.trace, fmt.Sprintf("  %s %s: fault %d", r.Method, r.URL.Path, chosen))
		fault := faults[chosen]
		return amstest.Transport{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			fault(w, r, func(w http.ResponseWriter) { l.ams.ServeHTTP(w, r) })
		})}.RoundTrip(r)
	}
	return amstest.Transport{Handler: l.ams}.RoundTrip(r)
}

func (w *walk) Load(_ context.Context, id string) (outbox.Desired, outbox.Recorded, error) {
	d, ok := w.desired[id]
	if !ok {
		return d, outbox.Recorded{}, store.ErrNotFound
	}
	return d, copied(w.replies[id]), nil
}

// copied returns a copy, so that changes of it do not change the store.
func copied(r outbox.Recorded) outbox.Recorded {
	if r.Mark != nil {
		mark := *r.Mark
		r.Mark = &mark
	}
	return r
}

func (w *walk) Modify(_ context.Context, id string, note Note, fn func(*outbox.Desired,
	*outbox.Recorded) error) error {
	w.maybeCrash("before a commit")
	d, ok := w.desired[id]
	if !ok {
		return store.ErrNotFound
	}
	r := copied(w.replies[id])
	if err := fn(&d, &r); err != nil {
		return err
	}
	w.replies[id] = r
	w.trace = append(w.trace, fmt.Sprintf("  stored %s %s", id[:4], note.Text))
	w.maybeCrash("after a commit")
	return nil
}

func (w *walk) maybeCrash(where string) {
	if w.faulty && w.rng.IntN(12) == 0 {
		w.trace = append(w.trace, "  killed "+where)
		panic(crash{})
	}
}

// attempt makes one attempt on a cluster, in a process that may crash during it.
func (w *walk) attempt(id string) (outcome result) {
	defer func() {
		switch reason := recover(); reason.(type) {
		case nil:
		case crash:
			w.start()
			outcome = result{state: waiting}
		default:
			panic(reason)
		}
	}()
	if !w.opened {
		if _, err := w.client.Open(context.Background()); err != nil {
			return result{state: waiting}
		}
		w.opened = true
	}
	t := &reconciler{
		api: w.client, states: w, clock: w.clock, account: ours.Username, identity: "here", by: byRelay,
		site: Site{Organization: ours.Organization, AccountID: ours.ID, FinalStatus: statusActive,
			Quarantine: 15 * time.Minute},
	}
	return t.reconcile(context.Background(), id, false)
}

// rest makes attempts on a cluster until nothing is left to do. It also retries like a person.
func (w *walk) rest(id string) error {
	for range 400 {
		outcome := w.attempt(id)
		if outcome.state == synced && outcome.until.IsZero() {
			return nil
		}
		if outcome.state == stopped {
			w.trace = append(w.trace, "  stopped: "+w.replies[id].Stop.Reason)
			r := copied(w.replies[id])
			clearStop(&r)
			w.replies[id] = r
		}
		w.clock.Advance(max(outcome.until.Sub(w.clock.Now()), 30*time.Second))
	}
	return fmt.Errorf("cluster %s never becomes idle: %+v of %+v", id, w.replies[id], w.desired[id])
}

// event is a change of a cluster.
type event struct {
	cluster string
	name    string
	apply   func(*outbox.Desired) // nil deletes the cluster
}

// history returns random events for two clusters.
func history(rng *rand.Rand) []event {
	var events []event
	for number := range 2 {
		id := uuid.Must(uuid.NewRandomFromReader(randomBytes{rng})).String()
		rename := func(name string) event {
			return event{id, "named " + name, func(d *outbox.Desired) { d.DisplayName = name }}
		}
		own := []event{rename(fmt.Sprintf("c%d", number))}
		for range rng.IntN(4) {
			own = append(own, rename(fmt.Sprintf("c%d-%d", number, rng.IntN(100))))
		}
		for range rng.IntN(3) { // installations, of which only the last may succeed
			external := uuid.Must(uuid.NewRandomFromReader(randomBytes{rng})).String()
			own = append(own, event{id, "prepared", func(d *outbox.Desired) { d.ExternalClusterID = external }})
		}
		if len(own) > 1 && rng.IntN(2) == 0 {
			url := fmt.Sprintf("https://console-openshift-console.apps.c%d.example.com", number)
			external := uuid.Must(uuid.NewRandomFromReader(randomBytes{rng})).String()
			own = append(own,
				event{id, "prepared", func(d *outbox.Desired) { d.ExternalClusterID = external }},
				event{id, "finalizing", func(d *outbox.Desired) { d.ConsoleURL = url }},
				event{id, "installed", func(d *outbox.Desired) { d.Phase, d.MustExist = outbox.Active, true }})
		}
		if rng.IntN(3) == 0 {
			own = append(own, event{id, "deleted", nil})
		}
		events = append(events, own...)
	}
	return events
}

type randomBytes struct{ *rand.Rand }

func (r randomBytes) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = byte(r.IntN(256))
	}
	return len(b), nil
}

func (w *walk) apply(e event) {
	w.trace = append(w.trace, e.cluster[:4]+" "+e.name)
	held, ok := w.desired[e.cluster]
	now := w.clock.Now().UTC()
	if e.apply == nil {
		if _, mentioned := w.replies[e.cluster]; !held.MustExist && !mentioned {
			delete(w.desired, e.cluster)
			return
		}
		wanted := held
		wanted.DeletedAt = now
		if !held.MustExist {
			wanted.Phase = outbox.Absent
		}
		w.desired[e.cluster], _ = held.Next(wanted, now)
		return
	}
	if !ok {
		held = outbox.Desired{Phase: outbox.Reserved, CreatedAt: now}
	}
	wanted := held
	e.apply(&wanted)
	w.desired[e.cluster], _ = held.Next(wanted, now)
}

// execute executes the history. With faults, the connection to AMS is rare and unreliable; without
// faults, it always works.
func (w *walk) execute(events []event) error {
	ids := map[string]bool{}
	for _, e := range events {
		w.apply(e)
		ids[e.cluster] = true
		if !w.faulty {
			if err := w.rest(e.cluster); err != nil {
				return err
			}
			continue
		}
		for range w.rng.IntN(3) {
			w.attempt(e.cluster)
			w.clock.Advance(time.Duration(w.rng.IntN(20)) * time.Minute)
		}
	}
	w.faulty = false // ends all faults
	for id := range ids {
		if err := w.rest(id); err != nil {
			return err
		}
	}
	return nil
}

// finalRow contains the fields of a subscription that must not depend on its history.
type finalRow struct{ status, name, external, console any }

// end returns the final state of the clusters in AMS.
func (w *walk) end() map[string][]finalRow {
	found := map[string][]finalRow{}
	for _, row := range w.ams.Rows() {
		if row["status"] != statusDeprovisioned {
			id := row["cluster_id"].(string)
			found[id] = append(found[id], finalRow{row["status"], row["display_name"], row["external_cluster_id"],
				row["console_url"]})
		}
	}
	return found
}

// Each history has its own seed. LANDFALL_TEST_SEED=N and -walks 1 repeat one.
func TestRelay_randomFaultsConverge(t *testing.T) {
	first, runs := randtest.Seed(t), uint64(*walks)
	creations, crashes := 0, 0
	for seed := first; seed != first+runs; seed++ {
		events := history(rand.New(rand.NewPCG(seed, 2)))
		calm, rough := newWalk(seed, false), newWalk(seed, true)
		require.NoError(t, calm.execute(events), "seed %d", seed)
		err := rough.execute(events)
		log := fmt.Sprintf("LANDFALL_TEST_SEED=%d -walks 1\n%s", seed, strings.Join(rough.trace, "\n"))
		require.NoError(t, err, log)
		require.Equal(t, calm.end(), rough.end(), log)
		require.Empty(t, rough.ams.WrongDeletes(), log)
		for id, rows := range rough.end() {
			require.Len(t, rows, 1, "cluster %s, %s", id, log)
		}
		for id, d := range rough.desired {
			r := rough.replies[id]
			require.True(t, r.Done(&d), "cluster %s was not reported completely, %s", id, log)
			require.Equal(t, !d.DeletedAt.IsZero(), r.Closed != "", "cluster %s, %s", id, log)
		}
		creations += len(rough.ams.Requests("create"))
		crashes += strings.Count(log, "killed")
	}
	if runs > 1 {
		require.Greater(t, creations, *walks, "the walks create subscriptions")
		require.Greater(t, crashes, *walks/2, "processes crash in the walks")
	}
}
