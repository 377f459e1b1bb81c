package agents_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-openapi/strfmt"
	"github.com/go-openapi/swag/conv"
	"github.com/jonboulle/clockwork"
	"github.com/openshift/assisted-service/models"
	"github.com/stretchr/testify/require"

	"landfall/appliance/access"
	"landfall/appliance/access/machine"
	"landfall/appliance/agents"
	"landfall/appliance/engine"
	"landfall/appliance/engine/event"
	"landfall/appliance/engine/record"
	"landfall/appliance/fault"
	"landfall/appliance/mirror"
	"landfall/appliance/sitekey"
	"landfall/store"
)

const (
	agentImage = "registry.site.test/agent@sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	stranger   = "198.51.100.7"
)

// site is an engine with an agents service, which a test can restart.
type site struct {
	testing.TB
	db     *store.DB
	clock  *clockwork.FakeClock
	issuer *machine.Issuer
	url    string // of the appliance
	*engine.Engine
	agents *agents.Service
}

// newSite returns a site that authenticates machines.
func newSite(t testing.TB) *site {
	t.Helper()
	s := &site{TB: t, clock: clockwork.NewFakeClockAt(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)),
		url: "http://appliance.site.test:8090"}
	var err error
	s.db, err = store.Open(t.Context(), t.TempDir(), store.Options{NoSync: true, Clock: s.clock})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.db.Close()) })
	key, err := sitekey.LoadOrCreate(t.TempDir())
	require.NoError(t, err)
	box, err := key.Box(engine.SecretsPurpose, nil)
	require.NoError(t, err)
	s.issuer, err = machine.NewIssuer(key, box)
	require.NoError(t, err)
	s.start(s.issuer)
	return s
}

// start starts another process on the site's data.
func (s *site) start(issuer *machine.Issuer) {
	s.Helper()
	var err error
	s.Engine, err = engine.New(engine.Options{
		DB: s.db, Clock: s.clock, URL: s.url, Tokens: issuer,
		AccessAt: func(mirror.Level) engine.ImageAccess { return engine.ImageAccess{Mirror: &mirror.Rules{}} },
		Images:   engine.Images{Agent: agentImage},
		ReleaseList: []engine.ReleaseImage{{OpenshiftVersion: "4.20.8", CPUArchitecture: "x86_64",
			URL: "quay.io/release:4.20.8", Default: true}},
	})
	require.NoError(s, err)
	s.agents = agents.New(agents.Options{DB: s.db, Engine: s.Engine, Issuer: issuer, Clock: s.clock,
		ImageURLs: func(path, code string) []string { return []string{path, code} }})
	s.RefreshImages(s.Context(), mirror.Level{}) // as the start of Run
}

func (s *site) cluster(name string) string {
	s.Helper()
	cluster, err := s.RegisterCluster(s.Context(), &models.ClusterCreateParams{Name: conv.Pointer(name),
		BaseDNSDomain: "site.test", OpenshiftVersion: conv.Pointer("4.20.8"),
		PullSecret: conv.Pointer(`{"auths":{"registry.site.test":{"auth":"dTpw"}}}`)})
	require.NoError(s, err)
	return cluster.ID.String()
}

// infraEnv creates an infra-env of a cluster, or of none.
func (s *site) infraEnv(name, clusterID string) string {
	s.Helper()
	params := &models.InfraEnvCreateParams{Name: conv.Pointer(name), OpenshiftVersion: "4.20.8",
		PullSecret: conv.Pointer(`{"auths":{"registry.site.test":{"auth":"dTpw"}}}`)}
	if clusterID != "" {
		params.ClusterID = conv.Pointer(strfmt.UUID(clusterID))
	}
	env, err := s.RegisterInfraEnv(s.Context(), params)
	require.NoError(s, err)
	return env.ID.String()
}

func (s *site) host(infraEnvID string, n int) string {
	s.Helper()
	id := strfmt.UUID(fmt.Sprintf("00000000-0000-4000-8000-%012d", n))
	_, err := s.RegisterHost(s.Context(), infraEnvID, &models.HostCreateParams{HostID: &id,
		DiscoveryAgentVersion: agentImage})
	require.NoError(s, err)
	return id.String()
}

// bootedToken returns the token in the current image of an infra-env, or "".
func (s *site) bootedToken(infraEnvID string) string {
	s.Helper()
	recipe, err := s.Recipe(s.Context(), infraEnvID)
	require.NoError(s, err)
	_, rest, found := strings.Cut(string(recipe.Ignition), "PULL_SECRET_TOKEN=")
	if !found {
		return ""
	}
	return rest[:strings.IndexAny(rest, `\"`)]
}

func (s *site) identify(token, operationID, clusterID, infraEnvID, hostID string) (access.Identity, error) {
	return s.agents.Identify(s.Context(), agents.Request{Token: token, Operation: operationID, Cluster: clusterID,
		InfraEnv: infraEnvID, Host: hostID, Address: stranger})
}

func (s *site) refusals(infraEnvID string) []string {
	s.Helper()
	found, err := s.Events(event.Filter{InfraEnvID: infraEnvID})
	require.NoError(s, err)
	var messages []string
	for _, e := range found.Events {
		if e.Name == event.MachineRefused {
			messages = append(messages, *e.Message)
		}
	}
	return messages
}

// machineOperation is an operation that upstream's API permits to agents, and the objects in its
// path.
type machineOperation struct {
	id                      string
	cluster, infraEnv, host bool
	peers                   bool // also for hosts of other infra-envs in the cluster
}

var operations = []machineOperation{
	{id: "v2RegisterHost", infraEnv: true},
	{id: "v2GetNextSteps", infraEnv: true, host: true},
	{id: "v2PostStepReply", infraEnv: true, host: true},
	{id: "v2UpdateHostInstallProgress", infraEnv: true, host: true, peers: true},
	{id: "v2UpdateHostLogsProgress", infraEnv: true, host: true, peers: true},
	{id: "v2DownloadHostIgnition", infraEnv: true, host: true},
	{id: "v2ListHosts", infraEnv: true},
	{id: "GetInfraEnv", infraEnv: true},
	{id: "v2DownloadInfraEnvFiles", infraEnv: true},
	{id: "v2UpdateClusterLogsProgress", cluster: true},
	{id: "V2UploadLogs", cluster: true},
	{id: "v2UploadClusterIngressCert", cluster: true},
	{id: "v2CompleteInstallation", cluster: true},
	{id: "V2ListOfClusterOperators", cluster: true},
	{id: "v2ReportMonitoredOperatorStatus", cluster: true},
	{id: "v2UpdateClusterFinalizingProgress", cluster: true},
	{id: "v2GetCluster", cluster: true},
	{id: "ListClusterHosts", cluster: true},
	{id: "V2DownloadClusterFiles", cluster: true},
	{id: "V2DownloadClusterCredentials", cluster: true},
}

func TestIdentify_ownObjectsOnly(t *testing.T) {
	s := newSite(t)
	cluster, foreign := s.cluster("own"), s.cluster("foreign")
	own, second, other := s.infraEnv("own", cluster), s.infraEnv("second", cluster), s.infraEnv("foreign", foreign)
	host, peer, alien := s.host(own, 1), s.host(second, 2), s.host(other, 3)
	token := s.bootedToken(own)
	for _, o := range operations {
		t.Run(o.id, func(t *testing.T) {
			call := func(clusterID, infraEnvID, hostID string) error {
				pick := func(has bool, id string) string {
					if has {
						return id
					}
					return ""
				}
				identity, err := s.identify(token, o.id, pick(o.cluster, clusterID), pick(o.infraEnv, infraEnvID),
					pick(o.host, hostID))
				if err == nil {
					require.Equal(t, access.Identity{Kind: access.Agent, InfraEnv: own}, identity)
				}
				return err
			}
			require.NoError(t, call(cluster, own, host))
			require.Equal(t, fault.Forbidden, fault.KindOf(call(foreign, other, alien)))
			err := call(cluster, second, peer)
			if o.peers || o.cluster {
				require.NoError(t, err, "the bootstrap host and the controller report for all hosts of the cluster")
			} else {
				require.Equal(t, fault.Forbidden, fault.KindOf(err))
			}
		})
	}
	_, err := s.identify(token, "v2UpdateHostInstallProgress", "", second, alien)
	require.Equal(t, fault.Forbidden, fault.KindOf(err), "the host is not in this infra-env")
	_, err = s.identify(token, "v2GetCluster", "99999999-9999-4999-8999-999999999999", "", "")
	require.NoError(t, err, "the handler answers 404 for a missing cluster, as the controller expects")
	_, err = s.identify(token, "v2ListClusters", "", "", "")
	require.Equal(t, fault.Forbidden, fault.KindOf(err))
	_, err = s.identify(token, "v2TriggerEvent", "", "", "")
	require.NoError(t, err)
	require.Error(t, s.agents.Allowed(access.Identity{Kind: access.Person, Role: access.Administrator}, "v2GetCluster",
		cluster, "", ""))
}

// TestIdentify_lateBinding binds hosts of one infra-env to clusters.
func TestIdentify_lateBinding(t *testing.T) {
	s := newSite(t)
	cluster, another := s.cluster("first"), s.cluster("second")
	own := s.infraEnv("late", "")
	host := s.host(own, 1)
	token := s.bootedToken(own)
	call := func(clusterID string) fault.Kind {
		_, err := s.identify(token, "v2GetCluster", clusterID, "", "")
		return fault.KindOf(err)
	}
	require.Equal(t, fault.Forbidden, call(cluster))
	bound := func(change func(tx *store.Tx, key string) error) {
		require.NoError(t, s.db.Update(t.Context(), func(tx *store.Tx) error {
			return change(tx, cluster+"/"+own+"/"+host)
		}))
	}
	bound(record.ClusterHosts.Add)
	require.Zero(t, call(cluster))
	require.Equal(t, fault.Forbidden, call(another))
	bound(record.ClusterHosts.Remove)
	require.Equal(t, fault.Forbidden, call(cluster))
}

func TestIdentify_refusalsAreEvents(t *testing.T) {
	s := newSite(t)
	own, other := s.infraEnv("own", ""), s.infraEnv("other", "")
	host := s.host(own, 1)
	token := s.bootedToken(own)
	altered := token[:len(token)-20] + "AAAA" + token[len(token)-16:]
	for range 50 {
		_, err := s.identify(altered, "v2GetNextSteps", "", own, host)
		require.Equal(t, fault.Unauthenticated, fault.KindOf(err))
	}
	require.Len(t, s.refusals(own), 1, "one event an hour for each address")
	require.Contains(t, s.refusals(own)[0], "Host "+host+" at "+stranger+" was refused. ")
	s.clock.Advance(time.Hour)
	_, err := s.identify(altered, "v2GetNextSteps", "", own, host)
	require.Error(t, err)
	require.Len(t, s.refusals(own), 2)
	for n := range 300 {
		_, err := s.agents.Identify(t.Context(), agents.Request{Token: altered, Operation: "v2GetNextSteps",
			InfraEnv: other, Host: host, Address: fmt.Sprintf("192.0.2.%d", n)})
		require.Error(t, err)
	}
	require.LessOrEqual(t, len(s.refusals(other)), 100)
	for _, message := range append(s.refusals(own), s.refusals(other)...) {
		require.NotContains(t, message, altered)
	}
}

func TestRenew_hasGraceTime(t *testing.T) {
	s := newSite(t)
	own := s.infraEnv("own", "")
	host := s.host(own, 1)
	first, image := s.bootedToken(own), must(s.ImageToken(own))
	s.poll(first, own, host)
	change, err := s.agents.Renew(t.Context(), own, time.Hour)
	require.NoError(t, err)
	require.Len(t, change.Hosts, 1)
	require.Equal(t, s.clock.Now().Add(time.Hour), change.PreviousUntil.UTC())
	second := s.bootedToken(own)
	require.NotEqual(t, first, second, "a renewal changes the image")
	s.poll(first, own, host)
	s.poll(second, own, host)
	_, err = s.agents.VerifyImage(image)
	require.Equal(t, fault.Unauthenticated, fault.KindOf(err))
	id, err := s.agents.VerifyImage(must(s.ImageToken(own)))
	require.NoError(t, err)
	require.Equal(t, own, id)
	s.clock.Advance(time.Hour)
	_, err = s.identify(first, "v2RegisterHost", "", own, "")
	require.Equal(t, fault.Unavailable, fault.KindOf(err), "an agent repeats its registration")
	s.poll(second, own, host)

	for _, grace := range []time.Duration{-time.Second, 31 * 24 * time.Hour} {
		_, err = s.agents.Renew(t.Context(), own, grace)
		require.Equal(t, fault.Invalid, fault.KindOf(err))
	}
	_, err = s.agents.Renew(t.Context(), "99999999-9999-4999-8999-999999999999", 0)
	require.Equal(t, fault.NotFound, fault.KindOf(err))
}

func TestRevoke_namesHosts(t *testing.T) {
	s := newSite(t)
	cluster := s.cluster("own")
	own, other := s.infraEnv("own", cluster), s.infraEnv("other", cluster)
	host := s.host(own, 1)
	s.host(other, 2)
	first := s.bootedToken(own)
	s.poll(first, own, host)
	path := must(s.ImagePath(own))
	code, _, err := s.CodeOfImage(own)
	require.NoError(t, err)
	change, err := s.agents.Revoke(t.Context(), own)
	require.NoError(t, err)
	require.Equal(t, []string{path, code}, change.InvalidURLs)
	_, err = s.ImageCode(t.Context(), code)
	require.Equal(t, fault.NotFound, fault.KindOf(err), "the short URL is invalid as well")
	next, _, err := s.CodeOfImage(own)
	require.NoError(t, err)
	found, err := s.ImageCode(t.Context(), next)
	require.NoError(t, err)
	require.Equal(t, own, found)
	require.Len(t, change.Hosts, 1)
	require.Equal(t, host, change.Hosts[0].ID)
	require.Equal(t, cluster, change.Hosts[0].ClusterID)
	_, err = s.identify(first, "v2GetNextSteps", "", own, host)
	require.Equal(t, fault.Unauthenticated, fault.KindOf(err))
	require.Contains(t, s.refusals(own)[0], "the token was revoked")
	s.poll(s.bootedToken(own), own, host)

	events, err := s.Events(event.Filter{InfraEnvID: own})
	require.NoError(t, err)
	require.Contains(t, fmt.Sprint(texts(events.Events)), "The tokens of the machines of infra-env own were revoked.")
}

func TestRevoke_revokedURLStaysRevoked(t *testing.T) {
	s := newSite(t)
	own := s.infraEnv("own", "")
	require.NoError(t, s.RevokeImageCode(t.Context(), own))
	_, err := s.agents.Revoke(t.Context(), own)
	require.NoError(t, err)
	code, _, err := s.CodeOfImage(own)
	require.NoError(t, err)
	require.Empty(t, code)
}

// TestCheckMove registers a machine of one infra-env under the ID of a host in another one.
func TestCheckMove(t *testing.T) {
	s := newSite(t)
	own, other := s.infraEnv("own", ""), s.infraEnv("other", "")
	host := s.host(own, 1)
	move := func(infraEnvID, hostID string) error {
		return s.agents.CheckMove(t.Context(), access.Identity{Kind: access.Agent, InfraEnv: infraEnvID,
			Address: stranger}, infraEnvID, hostID)
	}
	require.NoError(t, move(own, host), "the host registers again in its own infra-env")
	require.NoError(t, move(other, "00000000-0000-4000-8000-000000000099"), "a new host")
	for range 3 {
		s.clock.Advance(time.Minute)
		_, err := s.Instructions(t.Context(), engine.Poll{InfraEnvID: own, HostID: host})
		require.NoError(t, err)
		err = move(other, host)
		require.Equal(t, fault.Unavailable, fault.KindOf(err), "the agent tries again, and the host still runs")
	}
	require.Len(t, s.refusals(own), 1)
	require.Contains(t, s.refusals(own)[0], "Host "+host+" at "+stranger+" was refused.")
	require.NoError(t, s.agents.CheckMove(t.Context(), access.Identity{Kind: access.Person,
		Role: access.Administrator}, other, host), "a person may move a host")

	s.start(s.issuer)
	require.Error(t, move(other, host), "the host had no time yet to contact the new process")
	s.clock.Advance(3 * time.Minute)
	require.NoError(t, move(other, host), "the host was booted from the image of the other infra-env")
	s.host(other, 1)
	require.Error(t, move(own, host))
}

func TestVerify_deletedInfraEnv(t *testing.T) {
	s := newSite(t)
	own := s.infraEnv("own", "")
	token := s.bootedToken(own)
	go func() { _ = s.agents.Run(t.Context()) }()
	_, err := s.identify(token, "GetInfraEnv", "", own, "")
	require.NoError(t, err)
	require.NoError(t, s.DeregisterInfraEnv(t.Context(), own))
	require.Eventually(t, func() bool {
		_, err := s.identify(token, "GetInfraEnv", "", own, "")
		return fault.KindOf(err) == fault.Unavailable
	}, time.Minute, time.Millisecond)
}

// TestImages_bytesAreStable renders the images of an infra-env in several processes.
func TestImages_bytesAreStable(t *testing.T) {
	s := newSite(t)
	own := s.infraEnv("own", "")
	first, err := s.Recipe(t.Context(), own)
	require.NoError(t, err)
	require.NotEmpty(t, s.bootedToken(own))
	for range 3 {
		s.clock.Advance(time.Hour)
		s.start(s.issuer)
		again, err := s.Recipe(t.Context(), own)
		require.NoError(t, err)
		require.Equal(t, first, again)
	}
}

// TestTokenless_switchedOn switches the authentication of machines on while hosts run.
func TestTokenless_switchedOn(t *testing.T) {
	s := newSite(t)
	s.start(nil)
	cluster := s.cluster("early")
	own := s.infraEnv("early", cluster)
	host := s.host(own, 1)
	require.Empty(t, s.bootedToken(own))
	before, err := s.agents.Tokenless()
	require.NoError(t, err)
	require.Len(t, before, 1, "shown before the authentication is switched on")
	require.Equal(t, host, before[0].TokenlessHosts[0].ID)
	_, err = s.agents.Revoke(t.Context(), own)
	require.Equal(t, fault.Conflict, fault.KindOf(err))

	s.clock.Advance(time.Hour)
	s.start(s.issuer)
	token := s.bootedToken(own)
	require.NotEmpty(t, token)
	_, err = s.identify("", "v2RegisterHost", "", own, "")
	require.Equal(t, fault.Unavailable, fault.KindOf(err), "the agent repeats its registration")
	_, err = s.identify("", "v2GetNextSteps", "", own, host)
	require.Equal(t, fault.Unavailable, fault.KindOf(err))
	require.Len(t, s.refusals(own), 1)
	_, err = s.identify("", "v2GetCluster", cluster, "", "")
	require.Equal(t, fault.Unavailable, fault.KindOf(err), "the installer repeats the request")
	later := s.infraEnv("later", "")
	_, err = s.identify("", "v2RegisterHost", "", later, "")
	require.Equal(t, fault.Unauthenticated, fault.KindOf(err), "no image without a token exists")

	tokens, err := s.agents.AcceptTokenless(t.Context(), own, 2*time.Hour)
	require.NoError(t, err)
	require.Len(t, tokens.TokenlessHosts, 1)
	s.poll("", own, host)
	for _, operation := range []string{"v2GetCluster", "V2UploadLogs", "v2CompleteInstallation"} {
		_, err = s.identify("", operation, cluster, "", "")
		require.NoError(t, err)
	}
	_, err = s.identify("", "v2GetNextSteps", "", later, host)
	require.Equal(t, fault.Unauthenticated, fault.KindOf(err), "only in the accepted infra-env")
	s.host(own, 1)
	s.clock.Advance(time.Second)
	s.poll("", own, host)
	tokens, err = s.agents.Tokens(own)
	require.NoError(t, err)
	require.Len(t, tokens.TokenlessHosts, 1, "it booted the old image again")

	s.clock.Advance(2 * time.Hour)
	_, err = s.identify("", "v2GetNextSteps", "", own, host)
	require.Equal(t, fault.Unavailable, fault.KindOf(err))
	s.clock.Advance(time.Second)
	s.host(own, 1) // from the new image
	s.poll(token, own, host)
	none, err := s.agents.Tokenless()
	require.NoError(t, err)
	require.Empty(t, none)

	_, err = s.agents.AcceptTokenless(t.Context(), own, time.Hour)
	require.NoError(t, err)
	s.poll("", own, host)
	_, err = s.agents.AcceptTokenless(t.Context(), own, 0)
	require.NoError(t, err)
	_, err = s.identify("", "v2GetNextSteps", "", own, host)
	require.Error(t, err)
	_, err = s.agents.AcceptTokenless(t.Context(), own, 8*24*time.Hour)
	require.Equal(t, fault.Invalid, fault.KindOf(err))
}

// TestTokens_switchedOffAndOn switches the authentication off and on again.
func TestTokens_switchedOffAndOn(t *testing.T) {
	s := newSite(t)
	own := s.infraEnv("own", "")
	token := s.bootedToken(own)
	s.start(nil)
	require.Empty(t, s.bootedToken(own))
	host := s.host(own, 1)
	s.clock.Advance(time.Hour)
	s.start(s.issuer)
	require.Equal(t, token, s.bootedToken(own), "the key was kept")
	tokens, err := s.agents.Tokens(own)
	require.NoError(t, err)
	require.Len(t, tokens.TokenlessHosts, 1)
	require.Equal(t, host, tokens.TokenlessHosts[0].ID)
}

// BenchmarkIdentify measures a poll of an agent.
func BenchmarkIdentify(b *testing.B) {
	s := newSite(b)
	own := s.infraEnv("own", "")
	host := s.host(own, 1)
	token := s.bootedToken(own)
	b.ReportAllocs()
	for b.Loop() {
		s.poll(token, own, host)
	}
}

func (s *site) poll(token, infraEnvID, hostID string) {
	s.Helper()
	identity, err := s.identify(token, "v2GetNextSteps", "", infraEnvID, hostID)
	require.NoError(s, err)
	require.Equal(s, infraEnvID, identity.InfraEnv)
}

func texts(events []*models.Event) []string {
	var all []string
	for _, e := range events {
		all = append(all, *e.Message)
	}
	return all
}

func must(text string, err error) string {
	if err != nil {
		panic(err)
	}
	return text
}
