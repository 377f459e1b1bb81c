package follower

import (
	"log/slog"
	"net/http"
	"slices"
	"strings"

	"github.com/labstack/echo/v4"

	"landfall/appliance/backup"
	"landfall/appliance/fault"
	"landfall/appliance/fleet"
	"landfall/appliance/monitoring"
	"landfall/appliance/overview"
	"landfall/appliance/registry/traffic"
	"landfall/appliance/replica"
	"landfall/web"
	webaccess "landfall/web/access"
	"landfall/web/console"
	"landfall/web/operation"
)

// MetricsOptions configures [NewMetrics].
type MetricsOptions struct {
	Of     *monitoring.Metrics
	Names  []string // host names and URLs of this member
	Leader Leader
	Open   bool // clients need not authenticate
	Logger *slog.Logger
}

// Metrics shows the metrics of a member that does not lead. It never shows those of the leader in
// their place: it asks the leader only whether a client may read metrics. So the leader learns of
// uses of credentials, and may admit a client that the copy does not know.
type Metrics struct{ server *web.Server }

// NewMetrics returns the metrics of a member that has no copy of the database, and so no
// credentials: the leader decides who may read them.
func NewMetrics(options MetricsOptions) (*Metrics, error) {
	if options.Open {
		return newMetrics(options, webaccess.New(webaccess.Options{Open: true}).Wrap, neverDue)
	}
	return newMetrics(options, func(operation.Operation) echo.HandlerFunc {
		return func(echo.Context) error { return refusal(options.Leader) }
	}, neverDue)
}

func neverDue(string) bool { return false }

var errNotAdmitted = fault.New(fault.Unauthenticated, "this member has no copy of the accounts and tokens now, so the "+
	"leader decides who reads its metrics, and it did not admit you; use the address of another member")

// refusal returns the error of a member that knows no credentials, for a client that the leader
// does not admit.
func refusal(leader Leader) error {
	if leader.Led() {
		return errNotAdmitted
	}
	return fleet.ErrNoLeader
}

// newMetrics returns metrics behind a check of credentials. isDue reports whether the leader must
// learn of the use of a secret.
func newMetrics(options MetricsOptions, check func(operation.Operation) echo.HandlerFunc,
	isDue func(secret string) bool) (*Metrics, error) {
	wrap := func(o operation.Operation) echo.HandlerFunc {
		checked := o
		checked.Handler = func(echo.Context) error { return nil }
		admit := check(checked)
		return func(c echo.Context) error {
			r := c.Request()
			err := admit(c)
			asks := options.Leader.Led() && (isDue(webaccess.Used(o, r)) || err != nil)
			if admitted := asks && options.Leader.Admits(r); err != nil && !admitted {
				return err
			}
			c.Response().Header().Del(echo.HeaderWWWAuthenticate) // of a refusal that does not count
			return o.Handler(c)
		}
	}
	m := &Metrics{web.New(web.Options{Logger: options.Logger, Hosts: web.NewHosts(options.Names...), Wrap: wrap,
		TLS: &web.TLS{Plain: web.PlainFromMachine}})}
	return m, m.server.Register(console.MetricsOperations(options.Of)...)
}

// Handler returns the handler of a listener. others handles the requests that are not for metrics.
func (m *Metrics) Handler(at fleet.Listener, others http.Handler) http.Handler {
	if at != fleet.Main {
		return others
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if "/"+strings.TrimLeft(r.URL.Path, "/") == console.MetricsPath { // the server merges slashes
			m.server.ServeHTTP(w, r)
			return
		}
		others.ServeHTTP(w, r)
	})
}

// newMetrics returns the metrics of this member with those of the site that its copy has.
func (r *Reader) newMetrics() (*Metrics, error) {
	of := r.Observed
	of.Store = r.DB
	of.Overview = overview.NewReader(r.DB, r.servers().Servers, of.Usage, func() *replica.State { return nil },
		func() *backup.State { return nil }, r.Clock)
	if r.registry != nil {
		of.Others = append(slices.Clone(of.Others), traffic.Collector(r.registry.Traffic))
	}
	metrics, err := monitoring.NewMetrics(of)
	if err != nil {
		return nil, err
	}
	networks, _ := fleet.Networks(r.DB) // loadAll reports an error
	guard := r.guard(false, nil)
	return newMetrics(MetricsOptions{Of: metrics, Names: r.names(networks), Leader: r.Leader, Logger: r.Logger},
		func(o operation.Operation) echo.HandlerFunc {
			admit := guard.Wrap(o)
			return func(c echo.Context) error {
				if r.present.Load() == nil && !r.open() { // the credentials may be out of date
					return refusal(r.Leader)
				}
				return admit(c)
			}
		}, r.uses.isDue)
}
