package bmc

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"landfall/appliance/simulate/redfish"
)

// restartMonitor is the path of the task of a restart.
const restartMonitor = "/redfish/v1/TaskService/TaskMonitors/restart"

// afterRestart returns the URL of a proxy before a BMC. When the BMC has restarted its server for
// the first time, the proxy calls respond instead of forwarding the response. It calls respond
// again for each request to restartMonitor.
func (s *testSite) afterRestart(b *redfish.BMC, respond func(http.ResponseWriter, *http.Request)) string {
	target, err := url.Parse(b.URL())
	require.NoError(s.t, err)
	forward := httputil.NewSingleHostReverseProxy(target)
	var once sync.Once
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "ComputerSystem.Reset") {
			first := false
			once.Do(func() { first = true })
			if first {
				forward.ServeHTTP(httptest.NewRecorder(), r)
				respond(w, r)
				return
			}
		}
		if r.URL.Path == restartMonitor {
			respond(w, r)
			return
		}
		forward.ServeHTTP(w, r)
	}))
	s.t.Cleanup(proxy.Close)
	return proxy.URL
}

// A server is restarted once, also if the outcome of the restart is lost.
func TestRestart_outcomeLost(t *testing.T) {
	jobs := map[string]func(*row, time.Time){
		"reset":  func(r *row, now time.Time) { r.Pending = &Action{Kind: ActionReset, At: now} },
		"repair": func(r *row, _ time.Time) { r.Repair, r.Booted = true, &BootStatus{Host: &HostRef{infraEnv, "h1"}} },
	}
	for name, lose := range map[string]func(t *testing.T, cancel func()){
		"the disk becomes full, and the appliance ends": func(t *testing.T, _ func()) { t.Cleanup(fullDisk(t)) },
		"the appliance ends":                            func(_ *testing.T, cancel func()) { cancel() },
		"the response is lost":                          func(*testing.T, func()) { panic(http.ErrAbortHandler) },
	} {
		for job, order := range jobs {
			t.Run(name+"/"+job, func(t *testing.T) {
				s := newIdleSite(t)
				b := s.startBMC("generic")
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				var lost func()
				proxy := s.afterRestart(b, func(w http.ResponseWriter, _ *http.Request) {
					lost()
					w.WriteHeader(http.StatusNoContent)
				})
				s.ensure(b, func(d *Desired) { d.Address = addressOf(proxy) })
				w := &worker{m: s.manager, id: "n1"}
				w.runNext(ctx)
				change := func(change func(*row, time.Time)) {
					r, err := s.manager.load("n1")
					require.NoError(t, err)
					require.NoError(t, w.updateRow(bg, r.Generation, change))
				}
				change(order)
				t.Run("first process", func(t *testing.T) {
					lost = func() { lose(t, cancel) }
					w.runNext(ctx)
				})
				require.Equal(t, 1, powerChanges(b))

				w = &worker{m: s.manager, id: "n1"}
				change(func(r *row, _ time.Time) {
					if r.Error != nil {
						r.Error.RetryAt = time.Time{}
					}
				})
				w.runNext(t.Context())
				require.Equal(t, 1, powerChanges(b))
				r, err := s.manager.load("n1")
				require.NoError(t, err)
				require.Nil(t, r.Error)
				require.Nil(t, r.Pending)
				require.False(t, r.Repair)
				require.False(t, r.Restarting, "the next restart is a new one")
				require.Contains(t, r.History[len(r.History)-1].Message, "The server is not restarted a second time")
			})
		}
	}
}

// An inspection does not remove the note about a restart.
func TestRestart_inspectedMeanwhile(t *testing.T) {
	s := newIdleSite(t)
	b := s.startBMC("generic")
	proxy := s.afterRestart(b, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	s.ensure(b, func(d *Desired) { d.Address = addressOf(proxy) })
	w := &worker{m: s.manager, id: "n1"}
	w.runNext(t.Context())
	r, err := s.manager.load("n1")
	require.NoError(t, err)
	require.NoError(t, w.updateRow(bg, r.Generation, func(r *row, now time.Time) {
		r.State, r.Repair, r.Booted = Provisioned, true, &BootStatus{At: now, Host: &HostRef{infraEnv, "h1"}}
	}))
	w.runNext(t.Context())
	_, err = s.manager.RequestAction(bg, "n1", ActionInspect)
	require.NoError(t, err)
	for range 2 { // the inspection, the repair
		w.runNext(t.Context())
	}
	require.Equal(t, 1, powerChanges(b))
	r, err = s.manager.load("n1")
	require.NoError(t, err)
	require.False(t, r.Repair)
	require.Nil(t, r.Error)
	require.Contains(t, r.History[len(r.History)-1].Message, "The server is not restarted a second time")
}

// A server whose repair is due is deprovisioned, or another order replaces its boot. The repair
// does not power the server on afterwards.
func TestRepair_endsWithTheBoot(t *testing.T) {
	for name, order := range map[string]func(*testing.T, *testSite, *worker){
		"deprovisioned": func(t *testing.T, s *testSite, w *worker) {
			_, err := s.manager.Change(bg, "n1", nil, func(d Desired) (Desired, error) {
				d.Owner, d.Boot = "BareMetalHost site/n1", false
				return d, nil
			})
			require.NoError(t, err)
			w.runNext(t.Context())
			server, err := s.manager.Server("n1")
			require.NoError(t, err)
			require.Equal(t, Available, server.State)
		},
		"the next boot is canceled": func(t *testing.T, s *testSite, w *worker) {
			_, err := s.manager.Boot(bg, "n1", "", true)
			require.NoError(t, err)
			_, err = s.manager.RequestAction(bg, "n1", ActionPowerOff)
			require.NoError(t, err)
			w.runNext(t.Context())
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newIdleSite(t)
			b := s.startBMC("generic")
			s.ensure(b, nil)
			w := &worker{m: s.manager, id: "n1"}
			w.runNext(t.Context())
			r, err := s.manager.load("n1")
			require.NoError(t, err)
			require.NoError(t, w.updateRow(bg, r.Generation, func(r *row, now time.Time) {
				r.State, r.Repair, r.Restarting = Provisioned, true, true
				r.Booted = &BootStatus{At: now, Host: &HostRef{infraEnv, "h1"}}
			}))
			order(t, s, w)
			require.Equal(t, "Off", b.Power())
			r, err = s.manager.load("n1")
			require.NoError(t, err)
			require.False(t, r.Repair)
			require.False(t, r.Restarting, "the next restart is a new one")
			w.runNext(t.Context())
			require.Equal(t, "Off", b.Power())
		})
	}
}

// A restart that the BMC refused is repeated.
func TestRestart_refused(t *testing.T) {
	s := newIdleSite(t)
	b := s.startBMC("generic", redfish.ReadOnly)
	s.ensure(b, nil)
	w := &worker{m: s.manager, id: "n1"}
	w.runNext(t.Context())
	_, err := s.manager.RequestAction(bg, "n1", ActionReset)
	require.NoError(t, err)
	for attempts := 1; attempts <= 2; attempts++ {
		w.runNext(t.Context())
		r, err := s.manager.load("n1")
		require.NoError(t, err)
		require.Equal(t, attempts, r.Error.Count)
		require.NotNil(t, r.Pending)
		require.Equal(t, attempts, powerChanges(b))
		require.NoError(t, w.updateRow(bg, r.Generation, func(r *row, now time.Time) { r.Error.RetryAt = now }))
	}
}

// A BMC restarts its server, but its answer is an error, or the outcome of its task is. The server
// is restarted again only if the task ended without success.
func TestRestart_errorAfterIt(t *testing.T) {
	for name, c := range map[string]struct {
		status, taskStatus int
		task               string
		again              bool
	}{
		"a gateway finds no BMC":        {status: http.StatusBadGateway},
		"a gateway gets no answer":      {status: http.StatusGatewayTimeout},
		"the task can't be read":        {status: http.StatusAccepted, taskStatus: http.StatusServiceUnavailable},
		"the task is forbidden":         {status: http.StatusAccepted, taskStatus: http.StatusForbidden},
		"the task is a page of a proxy": {status: http.StatusAccepted, taskStatus: http.StatusBadGateway, task: "<p>"},
		"the task was interrupted":      {status: http.StatusAccepted, task: `{"TaskState": "Interrupted"}`},
		"the task failed":               {status: http.StatusAccepted, task: `{"TaskState": "Exception"}`, again: true},
		"the task was killed":           {status: http.StatusAccepted, task: `{"TaskState": "Killed"}`, again: true},
		"the task was canceled":         {status: http.StatusAccepted, task: `{"TaskState": "Cancelled"}`, again: true},
	} {
		t.Run(name, func(t *testing.T) {
			s := newIdleSite(t)
			b := s.startBMC("generic")
			proxy := s.afterRestart(b, func(w http.ResponseWriter, r *http.Request) {
				switch {
				case r.Method == http.MethodPost:
					w.Header().Set("Location", restartMonitor)
					w.WriteHeader(c.status)
				case c.taskStatus != 0:
					w.WriteHeader(c.taskStatus)
				}
				if r.Method != http.MethodPost {
					_, _ = w.Write([]byte(c.task))
				}
			})
			s.ensure(b, func(d *Desired) { d.Address = addressOf(proxy) })
			w := &worker{m: s.manager, id: "n1"}
			w.runNext(t.Context())
			_, err := s.manager.RequestAction(bg, "n1", ActionReset)
			require.NoError(t, err)
			w.runNext(t.Context())
			require.Equal(t, 1, powerChanges(b))
			r, err := s.manager.load("n1")
			require.NoError(t, err)
			require.NotNil(t, r.Error)
			require.NoError(t, w.updateRow(bg, r.Generation, func(r *row, now time.Time) { r.Error.RetryAt = now }))
			w.runNext(t.Context())
			r, err = s.manager.load("n1")
			require.NoError(t, err)
			require.Nil(t, r.Pending)
			require.Equal(t, c.again, powerChanges(b) == 2)
		})
	}
}
