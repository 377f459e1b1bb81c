//go:build etcd

package appliance_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/openshift/assisted-service/client/installer"
	"github.com/stretchr/testify/require"
)

const (
	fleetClients = 4
	// clientPause is the time between two requests of a client.
	clientPause = 20 * time.Millisecond
	// creationPause is the time between two creations.
	creationPause = 100 * time.Millisecond
	// clientPatience is the longest time for which a client waits for an answer.
	clientPatience = 10 * time.Second
)

// fleetUsers use a fleet over HTTP: one creates infra-envs, and others change and read one of
// them at the same time, each request through any member.
type fleetUsers struct {
	addresses []string
	version   string
	http      *http.Client
	began     time.Time
	end       context.CancelFunc
	running   sync.WaitGroup

	mu        sync.Mutex
	acked     map[string]string // ID of each created infra-env by name
	created   int               // requests
	unused    []string          // IDs of infra-envs without a history
	histories []*fleetHistory
	refusals  map[string]int // by status and text
	reads     int
	wrong     error // of reads
	wrongIn   *fleetHistory
}

// fleetHistory is what clients did with one infra-env. It is a register: its content is the value
// of a field.
type fleetHistory struct {
	id         string
	operations []porcupine.Operation
	answers    []string // all, for the report of a failure
}

// newFleetUsers starts users, and returns when the first history has begun.
func newFleetUsers(t *testing.T, chance *rand.Rand, version string, addresses ...string) *fleetUsers {
	t.Helper()
	through := &http.Transport{MaxIdleConnsPerHost: fleetClients}
	u := &fleetUsers{addresses: addresses, version: version, http: &http.Client{Transport: through},
		began: time.Now(), acked: make(map[string]string), refusals: make(map[string]int)}
	ctx, cancel := context.WithCancel(t.Context())
	u.end = cancel
	t.Cleanup(func() {
		u.stop()
		through.CloseIdleConnections()
	})
	u.running.Go(func() { u.create(ctx) })
	soon(t, "an infra-env is there", u.nextHistory)
	for id := range fleetClients {
		random := rand.New(rand.NewPCG(chance.Uint64(), 0))
		u.running.Go(func() { u.use(ctx, id, random) })
	}
	return u
}

// stop ends the users.
func (u *fleetUsers) stop() {
	u.end()
	u.running.Wait()
}

// nextHistory begins a history with another infra-env. It reports false if there is none.
func (u *fleetUsers) nextHistory() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.unused) == 0 {
		return false
	}
	u.histories, u.unused = append(u.histories, &fleetHistory{id: u.unused[0]}), u.unused[1:]
	return true
}

// send sends a request with the newest revision that the client has seen, and notes that of the
// answer. Its error is errNotSent if no member can have got the request.
func (u *fleetUsers) send(seen *uint64, method, url string, body, answer any) (status int, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), clientPatience)
	defer cancel()
	text, err := json.Marshal(body)
	if err != nil {
		return 0, err
	}
	request, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(text))
	if err != nil {
		return 0, err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set(headerRevision, strconv.FormatUint(*seen, 10))
	response, err := u.http.Do(request)
	if failed, ok := errors.AsType[*net.OpError](err); ok && failed.Op == "dial" {
		return 0, errNotSent
	}
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	if revision, err := strconv.ParseUint(response.Header.Get(headerRevision), 10, 64); err == nil {
		*seen = max(*seen, revision)
	}
	if response.StatusCode/100 != 2 {
		text, err := io.ReadAll(response.Body)
		u.mu.Lock()
		u.refusals[fmt.Sprintf("%d: %s", response.StatusCode, text)]++
		u.mu.Unlock()
		return response.StatusCode, err
	}
	return response.StatusCode, json.NewDecoder(response.Body).Decode(answer)
}

var errNotSent = errors.New("the member does not listen")

type infraEnvAnswer struct {
	ID    string `json:"id"`
	Value string `json:"additional_ntp_sources"`
}

const infraEnvsPath = apiPath + "/infra-envs"

// create creates infra-envs through all members, and remembers which were acknowledged.
func (u *fleetUsers) create(ctx context.Context) {
	for n := 0; waited(ctx, creationPause); n++ {
		name := fmt.Sprintf("created-%d", n)
		var made infraEnvAnswer
		url := u.addresses[n%len(u.addresses)] + infraEnvsPath
		status, err := u.send(new(uint64), http.MethodPost, url, map[string]string{
			"name": name, "pull_secret": pullSecret, "openshift_version": u.version}, &made)
		u.mu.Lock()
		u.created++
		if err == nil && status == http.StatusCreated {
			u.acked[name], u.unused = made.ID, append(u.unused, made.ID)
		}
		u.mu.Unlock()
	}
}

func waited(ctx context.Context, pause time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(pause):
		return true
	}
}

// use changes and reads the infra-env of the present history. Only the leader answers a PATCH, also
// one that changes nothing; any member may answer a GET from its copy.
func (u *fleetUsers) use(ctx context.Context, client int, random *rand.Rand) {
	seen, known := new(uint64), new(knowledge)
	for n := 0; waited(ctx, clientPause); n++ {
		u.mu.Lock()
		h := u.histories[len(u.histories)-1]
		u.mu.Unlock()
		if known.of != h {
			known = &knowledge{of: h, past: make(map[string]bool)}
		}
		url := u.addresses[random.IntN(len(u.addresses))] + infraEnvsPath + "/" + h.id
		var answer infraEnvAnswer
		if random.IntN(3) == 0 {
			called, before := u.now(), *seen
			status, err := u.send(seen, http.MethodGet, url, nil, &answer)
			h.describe(u, "client %d: GET through %s with revision %d at %d to %d ms: status %d, revision %d, %q, %v",
				client, url[:len(url)-len(h.id)], before, called/1e6, u.now()/1e6, status, *seen, answer.Value, err)
			if err == nil && status == http.StatusOK {
				u.note(h, known.read(client, answer.Value))
			}
			continue
		}
		o, body := porcupine.Operation{ClientId: client, Input: look{}}, map[string]string{}
		if random.IntN(2) == 0 {
			value := fmt.Sprintf("ntp-%d-%d.test", client, n)
			o.Input, body["additional_ntp_sources"] = change(value), value
		}
		before := *seen
		o.Call = u.now()
		status, err := u.send(seen, http.MethodPatch, url, body, &answer)
		o.Return = u.now()
		h.describe(u, "client %d: PATCH %v through %s with revision %d at %d to %d ms: status %d, revision %d, %q, %v",
			client, body, url[:len(url)-len(h.id)], before, o.Call/1e6, o.Return/1e6, status, *seen, answer.Value, err)
		value, isChange := o.Input.(change)
		answered := err == nil && status == http.StatusCreated
		switch {
		case errors.Is(err, errNotSent), !isChange && !answered:
			continue
		case !isChange:
			o.Output = answer.Value
			u.note(h, known.read(client, answer.Value))
		case answered:
			known.wrote(string(value))
		default:
			o.Return = math.MaxInt64 // it may still be carried out
		}
		u.mu.Lock()
		h.operations = append(h.operations, o)
		u.mu.Unlock()
	}
}

// knowledge is what a client knows about an infra-env, whose values are all different.
type knowledge struct {
	of      *fleetHistory
	present string
	past    map[string]bool // values that a later one has replaced
}

// read notes a value that the client has read. It returns an error if the client knew that it was
// replaced.
func (k *knowledge) read(client int, value string) error {
	if k.past[value] {
		return fmt.Errorf("client %d read the value %q of infra-env %s again, after %q", client, value, k.of.id,
			k.present)
	}
	if value != k.present {
		k.wrote(value)
	}
	return nil
}

// wrote notes a value that the client has written.
func (k *knowledge) wrote(value string) { k.past[k.present], k.present = true, value }

// note notes an error of what clients saw.
func (u *fleetUsers) note(h *fleetHistory, err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.reads++
	if err != nil {
		u.wrong, u.wrongIn = errors.Join(u.wrong, err), h
	}
}

// describe notes an answer.
func (h *fleetHistory) describe(u *fleetUsers, format string, arguments ...any) {
	u.mu.Lock()
	defer u.mu.Unlock()
	h.answers = append(h.answers, fmt.Sprintf(format, arguments...))
}

func (u *fleetUsers) now() int64 { return time.Since(u.began).Nanoseconds() }

// change and look are the operations on a register. A new one has the value "". The output of look
// is the value. The answer to a change is not used: it shows the row a moment later, perhaps with
// the change of another client.
type (
	change string
	look   struct{}
)

// register is the model of an infra-env.
var register = porcupine.Model{
	Init: func() any { return "" },
	Step: func(state, input, output any) (bool, any) {
		if value, isChange := input.(change); isChange {
			return true, string(value)
		}
		return output == state, state
	},
}

// verifyCreations checks that each acknowledged infra-env is there, and that none is there twice.
func (u *fleetUsers) verifyCreations(t *testing.T, address string) {
	t.Helper()
	listed, err := upstream(t, address).Installer.ListInfraEnvs(t.Context(), &installer.ListInfraEnvsParams{})
	require.NoError(t, err)
	found := make(map[string]string)
	for _, env := range listed.Payload {
		require.NotContains(t, found, *env.Name, "it is there twice")
		found[*env.Name] = env.ID.String()
	}
	for name, id := range u.acked {
		require.Equal(t, id, found[name], "%s was acknowledged", name)
	}
}

// verifyHistories checks that one machine could have given the answers of the leaders, and that no
// client read an older value than it knew.
func (u *fleetUsers) verifyHistories(t *testing.T, atLeast int) {
	t.Helper()
	if u.wrong != nil {
		t.Log(strings.Join(u.wrongIn.answers, "\n"))
	}
	require.NoError(t, u.wrong)
	require.GreaterOrEqual(t, len(u.histories), atLeast)
	for i, h := range u.histories {
		operations := h.relevant()
		if result := porcupine.CheckOperationsTimeout(register, operations, time.Minute); result != porcupine.Ok {
			t.Log(strings.Join(h.answers, "\n"))
			t.Fatalf("history %d of infra-env %s: %s", i, h.id, result)
		}
	}
}

// relevant returns the operations without the changes of an unknown outcome whose value nobody saw.
// They may have happened at the end, and each of them would double the time of the check.
func (h *fleetHistory) relevant() []porcupine.Operation {
	seen := make(map[any]bool)
	for _, o := range h.operations {
		if value, ok := o.Output.(string); ok {
			seen[change(value)] = true
		}
	}
	return slices.DeleteFunc(slices.Clone(h.operations), func(o porcupine.Operation) bool {
		return o.Return == math.MaxInt64 && !seen[o.Input]
	})
}

func (u *fleetUsers) String() string {
	operations, open := 0, 0
	for _, h := range u.histories {
		operations += len(h.operations)
		for _, o := range h.operations {
			if o.Return == math.MaxInt64 {
				open++
			}
		}
	}
	return fmt.Sprintf("%d of %d creations were acknowledged; %d histories of %d operations, %d with an unknown "+
		"outcome; %d reads; refusals: %v", len(u.acked), u.created, len(u.histories), operations, open, u.reads,
		u.refusals)
}
