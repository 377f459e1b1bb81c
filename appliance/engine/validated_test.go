package engine

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/go-openapi/strfmt"
	"github.com/go-openapi/swag/conv"
	"github.com/openshift/assisted-service/models"
	"github.com/stretchr/testify/require"

	"landfall/appliance/engine/validation"
	"landfall/appliance/engine/validationcache"
	"landfall/appliance/fault"
	"landfall/store"
)

// requireNothingStale validates everything again without the cache. It fails if a row would change.
func (b *harness) requireNothingStale(clusters []string, pool []*testHost, after string) {
	b.Helper()
	held := b.validationCache
	b.validationCache = new(validationcache.Cache)
	defer func() { b.validationCache = held }()
	errSeen := errors.New("rolled back")
	var altered []string
	err := b.options.DB.Update(b.Context(), func(tx *store.Tx) error {
		c := newChange(b.Context(), b.Engine, tx)
		before := tx.Revision()
		for _, id := range clusters {
			c.settleCluster(id)
		}
		for _, h := range pool {
			if host, err := c.host(h.env + "/" + h.id); err == nil {
				c.settleLater(host)
			}
		}
		if err := c.settle(); err != nil {
			return err
		}
		for _, line := range c.logLines {
			altered = append(altered, line.message)
		}
		if tx.Revision() != before {
			altered = append(altered, "a row was written")
		}
		return errSeen
	})
	require.ErrorIs(b, err, errSeen)
	require.Empty(b, altered, "after %s", after)
}

// TestValidationCache_followsItsInputs applies random histories to hosts and clusters. After each
// step it runs all validations again without the cache and expects the same results.
func TestValidationCache_followsItsInputs(t *testing.T) {
	for seed := range uint64(6) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 1))
			b := newHarness(t)
			cluster, hosts := b.threeNodes(rng.IntN(2) == 0)
			pool := b.newHost(b.infraEnvOf(nil), 9)
			require.NoError(t, pool.register())
			all := append(slices.Clone(hosts), pool)
			for range 30 {
				name, act := b.randomChange(rng, cluster, all)
				if err := act(); err != nil {
					require.NotZero(t, fault.KindOf(err), "%s: %v", name, err)
				}
				b.handle()
				b.requireNothingStale([]string{cluster}, all, name)
			}
		})
	}
}

// randomChange returns a random change of a site.
func (b *harness) randomChange(rng *rand.Rand, cluster string, hosts []*testHost) (string, func() error) {
	members := slices.DeleteFunc(slices.Clone(hosts), func(h *testHost) bool {
		_, err := b.Host(h.env, h.id)
		return err != nil
	})
	h := hosts[rng.IntN(len(hosts))]
	if !slices.Contains(members, h) {
		return "a registration", h.register
	}
	pick := func(values ...string) *string { return &values[rng.IntN(len(values))] }
	update := func(params *models.V2ClusterUpdateParams) func() error {
		return func() error { _, err := b.UpdateCluster(b.Context(), cluster, params); return err }
	}
	host := func(params *models.HostUpdateParams) func() error {
		return func() error { _, err := b.UpdateHost(b.Context(), h.env, h.id, params); return err }
	}
	changes := []struct {
		name string
		act  func() error
	}{
		{"a report", func() error { h.report(); return nil }},
		{"a report of all", func() error { b.reportAll(members); return nil }},
		{"memory", func() error { h.memory = int64(rng.IntN(3)*32+4) << 30; h.report(); return nil }},
		{"another manufacturer", func() error {
			h.maker = *pick("Nutanix", "VMware, Inc.", "Dell Inc.")
			h.report()
			return nil
		}},
		{"another name server", func() error { h.loadBalancer = !h.loadBalancer; h.report(); return nil }},
		{"another clock", func() error { h.skew = time.Duration(rng.IntN(90)) * time.Minute; h.poll(); return nil }},
		{"silence", func() error { b.pass(5*time.Minute, h); return nil }},
		{"time", func() error { b.pass(time.Duration(rng.IntN(3))*time.Minute, members...); return nil }},
		{"a restart", h.register},
		{"a restart by its BMC", func() error { return b.RestartHost(b.Context(), h.env, h.id) }},
		{"another host name", host(&models.HostUpdateParams{HostName: pick("node-1", "node-2", "other", "localhost")})},
		{"another role", host(&models.HostUpdateParams{HostRole: pick("master", "worker", "auto-assign", "arbiter")})},
		{"another cluster name", update(&models.V2ClusterUpdateParams{Name: pick("bench", "stern")})},
		{"another domain", update(&models.V2ClusterUpdateParams{BaseDNSDomain: pick("site.test", "other.test", "")})},
		{"another platform",
			update(&models.V2ClusterUpdateParams{Platform: platformOf(models.PlatformType(*pick("baremetal", "none",
				"vsphere", "nutanix")))})},
		{"VIPs",
			update(&models.V2ClusterUpdateParams{APIVips: []*models.APIVip{{IP: models.IP(*pick("192.168.10.4",
				"192.168.10.11", "10.0.0.1"))}}, IngressVips: []*models.IngressVip{{IP: "192.168.10.5"}}})},
		{"no VIPs", update(&models.V2ClusterUpdateParams{APIVips: []*models.APIVip{},
			IngressVips: []*models.IngressVip{}})},
		{"encryption", update(&models.V2ClusterUpdateParams{DiskEncryption: &models.DiskEncryption{EnableOn: pick("all",
			"none", "masters"), Mode: conv.Pointer("tpmv2")}})},
		{"control planes", update(&models.V2ClusterUpdateParams{ControlPlaneCount: conv.Pointer[int64](int64(2 +
			rng.IntN(3)))})},
		{"ignored", func() error {
			_, err := b.IgnoreValidations(b.Context(), cluster, &models.IgnoredValidations{HostValidationIds: *pick("",
				`["all"]`, `["has-default-route","ntp-synced"]`)})
			return err
		}},
		{"bind", func() error {
			_, err := b.BindHost(b.Context(), h.env, h.id, cluster)
			return err
		}},
		{"unbind", func() error {
			_, err := b.UnbindHost(b.Context(), h.env, h.id)
			return err
		}},
		{"a deletion", func() error { return b.DeregisterHost(b.Context(), h.env, h.id) }},
		{"install", func() error { _, err := b.InstallCluster(b.Context(), cluster); return err }},
		{"cancel", func() error { _, err := b.CancelInstallation(b.Context(), cluster); return err }},
		{"reset", func() error { _, err := b.ResetCluster(b.Context(), cluster); return err }},
	}
	chosen := changes[rng.IntN(len(changes))]
	return chosen.name, chosen.act
}

// TestValidationCache_clusterFollowsItsInputs changes each field of a host, in clusters whose
// validations read different fields. If the result of a validation changes, the digest of its
// inputs must change too.
func TestValidationCache_clusterFollowsItsInputs(t *testing.T) {
	b := newHarness(t)
	cluster, _ := b.threeNodes(true)
	relevant := 0
	for name, alter := range map[string]func(*models.Cluster){
		"three nodes":  func(*models.Cluster) {},
		"no addresses": func(api *models.Cluster) { api.APIVips, api.IngressVips = nil, nil },
		"two nodes":    func(api *models.Cluster) { api.ControlPlaneCount = 2 },
		"storage": func(api *models.Cluster) {
			api.MonitoredOperators = []*models.MonitoredOperator{
				{Name: "odf"}}
		},
		"AI": func(api *models.Cluster) {
			api.MonitoredOperators = []*models.MonitoredOperator{{Name: "openshift-ai"}}
		},
		"accelerators": func(api *models.Cluster) {
			api.MonitoredOperators = []*models.MonitoredOperator{
				{Name: "nvidia-gpu"}}
		},
		"local volumes": func(api *models.Cluster) {
			api.MonitoredOperators = []*models.MonitoredOperator{
				{Name: "lvm"}}
		},
		"own networking":  func(api *models.Cluster) { api.UserManagedNetworking = conv.Pointer(true) },
		"adding hosts":    func(api *models.Cluster) { api.Kind = conv.Pointer(models.ClusterKindAddHostsCluster) },
		"not a single IP": func(api *models.Cluster) { api.MachineNetworks = nil },
	} {
		t.Run(name, func(t *testing.T) {
			require.NoError(t, b.options.DB.View(func(tx *store.Tx) error {
				c := newReading(t.Context(), b.Engine, tx)
				w, err := c.members(cluster)
				require.NoError(t, err)
				alter(&w.row.API)
				validate := func() (report string, inputs [32]byte) {
					w.inputs = nil
					input, err := c.clusterInput(w)
					require.NoError(t, err)
					return string(validation.Cluster(input).JSON()),
						validationcache.Cluster(input, w.records, w.hosts, w.digest())
				}
				before, digest := validate()
				record := w.hosts[0].Record
				for f := range reflect.TypeFor[models.Host]().NumField() {
					whole := *record
					for _, value := range otherValues(reflect.ValueOf(record).Elem().Field(f)) {
						reflect.ValueOf(record).Elem().Field(f).Set(value)
						if after, other := validate(); after != before {
							relevant++
							require.NotEqual(t, digest, other,
								"the field %s affects the validations of the cluster, but is not in the digest",
								reflect.TypeFor[models.Host]().Field(f).Name)
						}
						*record = whole
					}
				}
				return nil
			}))
		})
	}
	require.Greater(t, relevant, 50, "too few fields affect the validations")
}

// otherValues returns values that a field may have.
func otherValues(field reflect.Value) []reflect.Value {
	texts := []string{"", "master", "worker", "arbiter", "auto-assign", "bootstrap", "known", "insufficient",
		"disconnected", "discovering", "Host", "AddToExistingClusterHost", "/dev/disk/by-id/b", "{}"}
	var values []reflect.Value
	switch {
	case field.Type() == reflect.TypeFor[strfmt.DateTime]():
		return []reflect.Value{reflect.ValueOf(strfmt.DateTime(noon.Add(100 * time.Hour))), reflect.Zero(field.Type())}
	case field.Type() == reflect.TypeFor[*models.HostProgressInfo]():
		return []reflect.Value{reflect.ValueOf(&models.HostProgressInfo{CurrentStage: models.HostStageRebooting})}
	case field.Kind() == reflect.String:
		for _, text := range texts {
			values = append(values, reflect.ValueOf(text).Convert(field.Type()))
		}
	case field.Kind() == reflect.Pointer && field.Type().Elem().Kind() == reflect.String && !field.IsNil():
		for _, text := range texts {
			value := reflect.New(field.Type().Elem())
			value.Elem().SetString(text)
			values = append(values, value)
		}
	case field.Kind() == reflect.Bool:
		values = append(values, reflect.ValueOf(!field.Bool()))
	case field.CanInt():
		values = append(values, reflect.ValueOf(field.Int()+3600).Convert(field.Type()), reflect.Zero(field.Type()))
	}
	return values
}

func TestMessages_sameMessageOnce(t *testing.T) {
	require.Equal(t, "Waiting for the host. No disk.", messages([]validation.Result{
		{ID: "connected", Message: "Waiting for the host."}, {ID: "mtu-valid", Message: "Waiting for the host."},
		{ID: "has-min-valid-disks", Message: "No disk."}, {ID: "ntp-synced", Message: "Waiting for the host."}}))
}
