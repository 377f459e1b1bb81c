package ocm_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/jonboulle/clockwork"
	amv1 "github.com/openshift-online/ocm-sdk-go/accountsmgmt/v1"
	"github.com/openshift-online/ocm-sdk-go/authentication"
	"github.com/openshift-online/ocm-sdk-go/logging"
	"github.com/stretchr/testify/require"

	"landfall/appliance/ams/amstest"
)

var person = amstest.Account{ID: "2GOuAccount", Username: "site", Organization: "2GOuOurs", OrganizationName: "Ours"}

// hostTransport sends the upstream client's requests, which have no host, to a server.
type hostTransport struct{ host string }

func (l hostTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	r.URL.Scheme, r.URL.Host = "http", l.host
	return http.DefaultTransport.RoundTrip(r)
}

// connect returns the upstream client, connected to the simulated AMS.
func connect(t *testing.T, ams *amstest.Server, with func(*authentication.TransportWrapperBuilder)) *amv1.Client {
	server := httptest.NewServer(ams)
	t.Cleanup(server.Close)
	logger, err := logging.NewGoLoggerBuilder().Debug(false).Info(false).Build()
	require.NoError(t, err)
	builder := authentication.NewTransportWrapper().Logger(logger).TokenURL(server.URL + amstest.TokenPath)
	with(builder)
	wrapper, err := builder.Build(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, wrapper.Close()) })
	return amv1.NewClient(wrapper.Wrap(hostTransport{strings.TrimPrefix(server.URL, "http://")}), amstest.Root)
}

// TestServer_upstreamClient checks with an independent client that the simulated AMS behaves as the
// real AMS.
func TestServer_upstreamClient(t *testing.T) {
	for name, switches := range map[string]amstest.Switches{
		"answers of the SDK's schema": {FullAnswers: true, SDKStatuses: true},
		"references":                  {SDKStatuses: true, Tombstones: true},
	} {
		t.Run(name, func(t *testing.T) {
			clock := clockwork.NewRealClock()
			ams := amstest.New(clock)
			ams.Switches = switches
			token := ams.AddAccount(person)
			client := connect(t, ams, func(b *authentication.TransportWrapperBuilder) { b.Tokens(token) })

			account, err := client.CurrentAccount().Get().SendContext(t.Context())
			require.NoError(t, err)
			require.Equal(t, "site", account.Body().Username())
			require.Equal(t, "2GOuOurs", account.Body().Organization().ID())

			const cluster = "fcf4c3c2-79a0-422c-8754-27cf02dfa9d2"
			request, err := amv1.NewClusterAuthorizationRequest().AccountUsername("site").
				ProductCategory("AssistedInstall").ProductID("OCP").
				ClusterID(cluster).DisplayName("one").Managed(false).Resources().Reserve(true).Build()
			require.NoError(t, err)
			authorized, err := client.ClusterAuthorizations().Post().Request(request).SendContext(t.Context())
			require.NoError(t, err)
			require.True(t, authorized.Response().Allowed())
			id := authorized.Response().Subscription().ID()
			require.Len(t, id, 27)

			one := client.Subscriptions().Subscription(id)
			got, err := one.Get().SendContext(t.Context())
			require.NoError(t, err)
			require.Equal(t, "Reserved", got.Body().Status())
			require.Equal(t, "OCP-AssistedInstall", got.Body().Plan().ID())
			require.WithinDuration(t, clock.Now(), got.Body().CreatedAt(), time.Minute)

			patch, err := amv1.NewSubscription().ExternalClusterID("da1c2141-9aaf-477b-b061-ab9cf5746ae9").
				ConsoleURL("https://console").Status("Active").Build()
			require.NoError(t, err)
			updated, err := one.Update().Body(patch).SendContext(t.Context())
			require.NoError(t, err)
			require.Equal(t, "Active", updated.Body().Status())
			require.Equal(t, "one", updated.Body().DisplayName())

			ams.Report("da1c2141-9aaf-477b-b061-ab9cf5746ae9", "site")
			found, err := client.Subscriptions().List().
				Search("external_cluster_id = 'da1c2141-9aaf-477b-b061-ab9cf5746ae9' and status in ('Active')").
				SendContext(t.Context())
			require.NoError(t, err)
			require.Equal(t, 1, found.Total())
			row := found.Items().Get(0)
			require.Equal(t, id, row.ID())
			require.Equal(t, "healthy", string(row.Metrics()[0].HealthState()))
			require.Equal(t, float64(3), row.Metrics()[0].Nodes().Total())

			_, err = client.Subscriptions().List().Search(`status = "Active"`).SendContext(t.Context())
			require.ErrorContains(t, err, "ACCT-MGMT-23")
			deleted, err := one.Delete().SendContext(t.Context())
			require.NoError(t, err)
			require.Equal(t, 204, deleted.Status())
			gone, err := one.Delete().SendContext(t.Context())
			require.Error(t, err)
			require.Equal(t, 404, gone.Status())
			require.Equal(t, []string{id}, ams.WrongDeletes(), "the subscription was Active")
		})
	}
}

func TestServer_upstreamClientWithServiceAccount(t *testing.T) {
	ams := amstest.New(clockwork.NewRealClock())
	ams.AddAccount(person)
	ams.AddClient("site", "robot", "secret")
	good := connect(t, ams, func(b *authentication.TransportWrapperBuilder) { b.Client("robot", "secret") })
	account, err := good.CurrentAccount().Get().SendContext(t.Context())
	require.NoError(t, err)
	require.Equal(t, "site", account.Body().Username())
	bad := connect(t, ams, func(b *authentication.TransportWrapperBuilder) { b.Client("robot", "guess") })
	_, err = bad.CurrentAccount().Get().SendContext(t.Context())
	require.Error(t, err)
}
