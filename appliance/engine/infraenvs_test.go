package engine

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/go-openapi/strfmt"
	"github.com/go-openapi/swag/conv"
	"github.com/openshift/assisted-service/models"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"landfall/appliance/engine/event"
	"landfall/appliance/engine/recipe"
	"landfall/appliance/engine/record"
	"landfall/appliance/fault"
	"landfall/ignition"
	"landfall/store"
)

// newEnv returns a valid request for an infra-env.
func newEnv(alter ...func(*models.InfraEnvCreateParams)) *models.InfraEnvCreateParams {
	params := &models.InfraEnvCreateParams{Name: conv.Pointer("site"), PullSecret: conv.Pointer(testPullSecret),
		OpenshiftVersion: "4.20.8"}
	for _, f := range alter {
		f(params)
	}
	return params
}

func (b *harness) register(alter ...func(*models.InfraEnvCreateParams)) *models.InfraEnv {
	b.Helper()
	env, err := b.RegisterInfraEnv(b.Context(), newEnv(alter...))
	require.NoError(b, err)
	return env
}

func (b *harness) patch(id string, params *models.InfraEnvUpdateParams) *models.InfraEnv {
	b.Helper()
	env, err := b.UpdateInfraEnv(b.Context(), id, params)
	require.NoError(b, err)
	return env
}

func (b *harness) recipe(id string) *recipe.Recipe {
	b.Helper()
	recipe, err := b.Recipe(b.Context(), id)
	require.NoError(b, err)
	return recipe
}

func TestRecipe_frozenWithItsInfraEnv(t *testing.T) {
	b := newHarness(t)
	b.options.Images.Agent = "quay.io/parts/agent:1"
	env := b.register()
	digest, err := b.RecipeDigest(env.ID.String())
	require.NoError(t, err)
	require.NotEmpty(t, digest, "the recipe is frozen without a download")

	before := b.options.DB.Revision()
	recipe := b.recipe(env.ID.String())
	require.Equal(t, digest, recipe.Digest)
	require.Equal(t, *env.UpdatedAt, recipe.Modified)
	require.Equal(t, env.ID.String(), recipe.InfraEnvID)
	require.Equal(t, "site", recipe.Name)
	require.Equal(t, "4.20.8", recipe.OpenshiftVersion)
	require.Equal(t, models.ImageTypeFullIso, recipe.Type)
	found, err := ignition.ReadDiscovery(recipe.Ignition)
	require.NoError(t, err)
	require.Equal(t, "quay.io/parts/agent:1", found.AgentImage)
	require.Equal(t, before, b.options.DB.Revision(), "reading writes nothing")

	t.Run("configuration applies at the next start", func(t *testing.T) {
		b.options.Images.Agent = "quay.io/parts/agent:2"
		require.Equal(t, recipe, b.recipe(env.ID.String()))
		b.clock.Advance(time.Minute)
		again := b.engineOver(b.options.DB)
		again.options.Images.Agent = "quay.io/parts/agent:2"
		b.Engine = again
		require.Equal(t, recipe, b.recipe(env.ID.String()))
		require.NoError(t, b.refreeze(t.Context(), env.ID.String()))
		changed := b.recipe(env.ID.String())
		require.NotEqual(t, recipe.Digest, changed.Digest)
		require.Contains(t, string(changed.Ignition), "agent:2")
		require.Equal(t, noon.Add(time.Minute), changed.Modified)
		shown, err := b.InfraEnv(env.ID.String())
		require.NoError(t, err)
		require.Equal(t, changed.Modified, *shown.UpdatedAt)
		require.Equal(t, []string{event.InfraEnvRegistered, event.ImageUpdated},
			b.names(event.Filter{InfraEnvID: env.ID.String()}))
		before := b.options.DB.Revision()
		require.NoError(t, b.refreeze(t.Context(), env.ID.String()))
		require.Equal(t, before, b.options.DB.Revision(), "once")
	})
}

func TestRecipe_startChecksOnlyAfterSharedChange(t *testing.T) {
	b := newHarness(t)
	id := b.register().ID.String()
	frozen := b.recipe(id).Digest
	alterRecipe := func() { // only a check of all recipes detects this
		require.NoError(t, b.update(t.Context(), func(c *change) error {
			row, err := c.infraEnv(id)
			if err != nil {
				return err
			}
			row.Recipe = record.RecipeState{Digest: "altered", Inputs: "altered"}
			c.saveInfraEnv(row)
			return nil
		}))
	}
	restart := func(change func(*Engine)) string {
		b.Engine = b.engineOver(b.options.DB)
		change(b.Engine)
		require.NoError(t, b.refreezeAll(t.Context()))
		digest, err := b.RecipeDigest(id)
		require.NoError(t, err)
		return digest
	}
	alterRecipe()
	require.Equal(t, frozen, restart(func(*Engine) {}), "the first start checks all recipes")
	alterRecipe()
	require.Equal(t, "altered", restart(func(*Engine) {}), "a start with the same configuration checks none")
	require.NotEqual(t, "altered", restart(func(e *Engine) { e.options.URL = "http://10.0.0.9:8090" }))
	unknown := func(e *Engine) {
		e.options.ReleaseList = []ReleaseImage{{OpenshiftVersion: "4.20.8", CPUArchitecture: "x86_64",
			URL: "quay.io/release:other", Default: true}}
	}
	alterRecipe()
	require.Equal(t, "altered", restart(unknown), "an unreachable release changes nothing")
	before := b.options.DB.Revision()
	require.Equal(t, "altered", restart(unknown))
	require.Equal(t, before, b.options.DB.Revision(), "nothing new is stored")
	origin := func() (origin *record.RecipeOrigin) {
		require.NoError(t, b.options.DB.View(func(tx *store.Tx) (err error) {
			origin, err = record.RecipeOrigins.Get(tx, record.RecipeOriginKey)
			return err
		}))
		return origin
	}
	require.Equal(t, []string{id}, origin().Outdated)
	require.Equal(t, frozen, restart(func(*Engine) {}), "the next start tries again")
}

func TestRecipe_waitsForTheRegistry(t *testing.T) {
	b := newHarness(t)
	env := b.register()
	digest, err := b.RecipeDigest(env.ID.String())
	require.NoError(t, err)
	require.Empty(t, digest, "the release payload has not been read")
	recipe := b.recipe(env.ID.String())
	require.Contains(t, string(recipe.Ignition), "quay.io/parts/agent-installer-node-agent",
		"the registry is asked now")
	second := b.register()
	digest, err = b.RecipeDigest(second.ID.String())
	require.NoError(t, err)
	require.NotEmpty(t, digest, "the digest is stored")

	t.Run("in the background", func(t *testing.T) {
		b := newHarness(t)
		b.run(func() {
			env := b.register()
			require.Eventually(t, func() bool {
				digest, err := b.RecipeDigest(env.ID.String())
				return err == nil && digest != ""
			}, time.Minute, 5*time.Millisecond)
		})
	})
}

func TestRecipe_digestOfItsBytes(t *testing.T) {
	b := newHarness(t)
	b.options.Images.Agent = "quay.io/parts/agent:1"
	env := b.register()
	id := env.ID.String()
	seen := map[string]string{b.recipe(id).Digest: "registration"}
	static := []*models.HostStaticNetworkConfig{{
		NetworkYaml:     "interfaces:\n- name: eth0\n  ipv4: {enabled: true, dhcp: true}\n",
		MacInterfaceMap: models.MacInterfaceMap{{MacAddress: "52:54:00:00:00:01", LogicalNicName: "eth0"}},
	}}
	for _, step := range []struct {
		what   string
		params models.InfraEnvUpdateParams
	}{
		{"an SSH key", models.InfraEnvUpdateParams{SSHAuthorizedKey: conv.Pointer(sshKey("one"))}},
		{"a time server", models.InfraEnvUpdateParams{AdditionalNtpSources: conv.Pointer("ntp.site.example")}},
		{"a proxy",
			models.InfraEnvUpdateParams{Proxy: &models.Proxy{HTTPProxy: conv.Pointer(
				"http://proxy.site.example:3128")}}},
		{"a kernel argument", models.InfraEnvUpdateParams{KernelArguments: models.KernelArguments{{Operation: "append",
			Value: "rd.debug"}}}},
		{"another kernel argument",
			models.InfraEnvUpdateParams{KernelArguments: models.KernelArguments{{Operation: "delete",
				Value: "rd.debug"}}}},
		{"a type", models.InfraEnvUpdateParams{ImageType: models.ImageTypeMinimalIso}},
		{"a static network", models.InfraEnvUpdateParams{StaticNetworkConfig: static}},
		{"an override",
			models.InfraEnvUpdateParams{
				IgnitionConfigOverride: `{"ignition":{"version":"3.1.0"},"storage":{"files":[{"path":"/x","contents":{"source":"data:,"}}]}}`}},
		{"a pull secret", models.InfraEnvUpdateParams{PullSecret: `{"auths":{"quay.io":{"auth":"b3RoZXI6cGFzcw=="}}}`}},
	} {
		b.clock.Advance(time.Second)
		changed := b.patch(id, &step.params)
		recipe := b.recipe(id)
		require.Empty(t, seen[recipe.Digest], step.what)
		seen[recipe.Digest] = step.what
		require.Equal(t, b.clock.Now().UTC(), recipe.Modified, step.what)
		require.Equal(t, recipe.Modified, *changed.UpdatedAt, step.what)

		before := b.options.DB.Revision()
		b.clock.Advance(time.Second)
		b.patch(id, &step.params)
		require.Equal(t, before, b.options.DB.Revision(), "%s: an equal update changes nothing", step.what)
		want, err := recipe.ComputeDigest()
		require.NoError(t, err)
		require.Equal(t, want, recipe.Digest)
	}
	recipe := b.recipe(id)
	require.Equal(t, []string{"etc/systemd/system/coreos-livepxe-rootfs.service.d/10-proxy.conf",
		"etc/coreos-firstboot-network/host0-eth0.nmconnection"}, paths(recipe.Files))

	t.Run("of any cluster", func(t *testing.T) {
		other := *recipe
		other.InfraEnvID, other.Name, other.Modified = "another", "other", time.Time{}
		digest, err := other.ComputeDigest()
		require.NoError(t, err)
		require.Equal(t, recipe.Digest, digest)
	})
}

func paths(files []ignition.File) []string {
	var all []string
	for _, f := range files {
		all = append(all, f.Path)
	}
	return all
}

// sshKey returns a public key with a comment.
func sshKey(comment string) string {
	public := ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize)).Public().(ed25519.PublicKey)
	var blob []byte
	for _, part := range [][]byte{[]byte("ssh-ed25519"), public} {
		blob = append(binary.BigEndian.AppendUint32(blob, uint32(len(part))), part...)
	}
	return "ssh-ed25519 " + base64.StdEncoding.EncodeToString(blob) + " " + comment
}

func TestRecipe_largeRecipeIsAFile(t *testing.T) {
	b := newHarness(t)
	b.options.Images.Agent = "quay.io/parts/agent:1"
	content := make([]byte, 300<<10)
	random := rand.NewChaCha8([32]byte{1})
	_, err := random.Read(content)
	require.NoError(t, err)
	override := fmt.Sprintf(
		`{"ignition":{"version":"3.1.0"},"storage":{"files":[{"path":"/noise","contents":{"source":"data:;base64,%s"}}]}}`, base64.StdEncoding.EncodeToString(content))
	env := b.register(func(p *models.InfraEnvCreateParams) { p.IgnitionConfigOverride = override })
	require.Contains(t, string(b.recipe(env.ID.String()).Ignition), base64.StdEncoding.EncodeToString(content[:300]))
	require.NoError(t, b.options.DB.CollectBlobs(t.Context()))
	require.Greater(t, len(b.recipe(env.ID.String()).Ignition), 300<<10)

	require.NoError(t, b.DeregisterInfraEnv(t.Context(), env.ID.String()))
	_, err = b.Recipe(t.Context(), env.ID.String())
	b.requireRejected(err, fault.NotFound, "There is no infra-env")
	require.NoError(t, b.options.DB.View(func(tx *store.Tx) error {
		return record.Recipes.Keys(tx, "", func(key string) error { return errors.New("not deleted: " + key) })
	}))
}

func TestUpdateInfraEnv_leavesAbsentFields(t *testing.T) {
	b := newHarness(t)
	bundle := b.authority
	env := b.register(func(p *models.InfraEnvCreateParams) {
		p.SSHAuthorizedKey = conv.Pointer(sshKey("one") + "\n")
		p.AdditionalNtpSources = conv.Pointer("ntp.site.example,192.0.2.1")
		p.AdditionalTrustBundle = "\n" + bundle + "\n\n"
		p.Proxy = &models.Proxy{HTTPProxy: conv.Pointer("http://a.example:1"), NoProxy: conv.Pointer(".example")}
		p.KernelArguments = models.KernelArguments{{Operation: "append", Value: "quiet"}}
		p.StaticNetworkConfig = []*models.HostStaticNetworkConfig{{
			NetworkYaml:     "interfaces:\n- name: eth0\n",
			MacInterfaceMap: models.MacInterfaceMap{{MacAddress: "52:54:00:00:00:01", LogicalNicName: "eth0"}},
		}}
		p.IgnitionConfigOverride = `{"ignition":{"version":"3.1.0"}}`
	})
	require.Equal(t, strings.TrimSpace(bundle), env.AdditionalTrustBundle)
	require.Equal(t, sshKey("one"), env.SSHAuthorizedKey)
	require.JSONEq(t, `[{"operation":"append","value":"quiet"}]`, *env.KernelArguments)
	before, err := json.Marshal(env)
	require.NoError(t, err)

	for name, body := range map[string]string{
		"no field":                   `{}`,
		"all null":                   `{"ssh_authorized_key":null,"additional_ntp_sources":null,"additional_trust_bundle":null,"proxy":null,"kernel_arguments":null,"static_network_config":null,"openshift_version":null,"ignition_config_override":null,"pull_secret":null,"image_type":null}`,
		"empty texts without effect": `{"openshift_version":"","ignition_config_override":"","pull_secret":"","image_type":""}`,
		"an empty proxy":             `{"proxy":{}}`,
	} {
		t.Run(name, func(t *testing.T) {
			params := new(models.InfraEnvUpdateParams)
			require.NoError(t, json.Unmarshal([]byte(body), params))
			after, err := json.Marshal(b.patch(env.ID.String(), params))
			require.NoError(t, err)
			require.JSONEq(t, string(before), string(after))
		})
	}
	t.Run("one field of the proxy", func(t *testing.T) {
		proxy := b.patch(env.ID.String(),
			&models.InfraEnvUpdateParams{Proxy: &models.Proxy{HTTPSProxy: conv.Pointer("http://b.example:2")}}).Proxy
		require.Equal(t, []string{"http://a.example:1", "http://b.example:2", ".example"},
			[]string{*proxy.HTTPProxy, *proxy.HTTPSProxy, *proxy.NoProxy})
	})
	t.Run("empty fields clear optional values", func(t *testing.T) {
		params := new(models.InfraEnvUpdateParams)
		require.NoError(t,
			json.Unmarshal(
				[]byte(
					`{"ssh_authorized_key":"","additional_ntp_sources":"","additional_trust_bundle":"","kernel_arguments":[],"static_network_config":[],"proxy":{"http_proxy":"","https_proxy":"","no_proxy":""}}`), params))
		cleared := b.patch(env.ID.String(), params)
		require.Empty(t, cleared.SSHAuthorizedKey+cleared.AdditionalNtpSources+cleared.AdditionalTrustBundle+
			cleared.StaticNetworkConfig)
		require.Nil(t, cleared.KernelArguments)
		require.Empty(t, *cleared.Proxy.HTTPProxy)
		require.Empty(t, b.recipe(env.ID.String()).Files)
	})
}

func TestRegisterInfraEnv_invalid(t *testing.T) {
	b := newHarness(t)
	env := b.register()
	card := models.MacInterfaceMap{{MacAddress: "52:54:00:00:00:01", LogicalNicName: "eth0"}}
	for name, tc := range map[string]struct {
		alter func(*models.InfraEnvCreateParams)
		want  string
		only  bool // not possible in an update
	}{
		"no name": {func(p *models.InfraEnvCreateParams) { p.Name = conv.Pointer(" ") }, "needs a name",
			true},
		"no pull secret": {func(p *models.InfraEnvCreateParams) { p.PullSecret = conv.Pointer("") }, "pull secret",
			true},
		"a bad pull secret": {func(p *models.InfraEnvCreateParams) { p.PullSecret = conv.Pointer("{}") },
			"pull secret", false},
		"an unknown release": {func(p *models.InfraEnvCreateParams) { p.OpenshiftVersion = "4.3" },
			`no release image for OpenShift "4.3"`, false},
		"a disconnected ISO": {func(p *models.InfraEnvCreateParams) { p.ImageType = models.ImageTypeDisconnectedIso },
			"cannot make images of the type disconnected-iso", false},
		"a name server's URL": {func(p *models.InfraEnvCreateParams) {
			p.AdditionalNtpSources = conv.Pointer(
				"ntp.example,http://x")
		}, `The NTP source "http://x"`, false},
		"a truncated SSH key": {func(p *models.InfraEnvCreateParams) {
			p.SSHAuthorizedKey = conv.Pointer(sshKey("a") + "\nssh-ed25519 AAAA")
		}, "Line 2 of the SSH keys", false},
		"a private SSH key": {func(p *models.InfraEnvCreateParams) {
			p.SSHAuthorizedKey = conv.Pointer("-----BEGIN OPENSSH PRIVATE KEY-----")
		}, "Line 1 of the SSH keys", false},
		"an invalid bundle": {func(p *models.InfraEnvCreateParams) { p.AdditionalTrustBundle = "abc" },
			"not in PEM form from certificate 1 on", false},
		"a bundle with a bad certificate": {func(p *models.InfraEnvCreateParams) {
			p.AdditionalTrustBundle = "-----BEGIN CERTIFICATE-----\nMAo=\n-----END CERTIFICATE-----"
		}, "Certificate 1 of the additional trust bundle can't be read", false},
		"a proxy without a scheme": {func(p *models.InfraEnvCreateParams) {
			p.Proxy = &models.Proxy{
				HTTPProxy: conv.Pointer("proxy:3128")}
		}, `The proxy "proxy:3128" is not a URL`, false},
		"a no_proxy with blanks": {func(p *models.InfraEnvCreateParams) {
			p.Proxy = &models.Proxy{NoProxy: conv.Pointer(".example,192.0.2.0/24 10.0.0.1")}
		}, `no_proxy has "192.0.2.0/24 10.0.0.1"`, false},
		"an invalid override": {
			func(p *models.InfraEnvCreateParams) { p.IgnitionConfigOverride = `{"ignition":{"version":"9.9.9"}}` },
			`is "9.9.9"; the supported versions are 3.0.0 to`, false},
		"a kernel argument without a value": {func(p *models.InfraEnvCreateParams) {
			p.KernelArguments = models.KernelArguments{{Operation: "append", Value: "a"}, {Operation: "append"}}
		}, "Kernel argument 1 needs an operation", false},
		"a kernel argument of two lines": {func(p *models.InfraEnvCreateParams) {
			p.KernelArguments = models.KernelArguments{{Operation: "append", Value: "a=\"b\nc\""}}
		}, "Kernel argument 0 has a line break", false},
		"a replacement without value": {func(p *models.InfraEnvCreateParams) {
			p.KernelArguments = models.KernelArguments{{Operation: "replace", Value: "quiet"}}
		}, `Kernel argument 0 is "quiet", which is not a replacement; write key=old=new.`, false},
		"an invalid address": {func(p *models.InfraEnvCreateParams) {
			p.StaticNetworkConfig = []*models.HostStaticNetworkConfig{
				{NetworkYaml: "interfaces:\n- name: eth0\n  ipv4: {address: [{ip: 192.0.2.300, prefix-length: 24}]}",
					MacInterfaceMap: card},
			}
		}, `Static network: host 0: interfaces[0].ipv4.address[0].ip (line 3) is "192.0.2.300"`, false},
		"a network without host": {func(p *models.InfraEnvCreateParams) {
			p.StaticNetworkConfig = []*models.HostStaticNetworkConfig{nil, {NetworkYaml: "{}", MacInterfaceMap: card}}
		}, "host 0: no NIC has a MAC address", false},
		"a virtual switch in a minimal image": {func(p *models.InfraEnvCreateParams) {
			p.ImageType = models.ImageTypeMinimalIso
			p.StaticNetworkConfig = []*models.HostStaticNetworkConfig{
				{NetworkYaml: "interfaces:\n- name: eth0\n- name: br0\n  type: ovs-bridge", MacInterfaceMap: card}}
		}, "host 0: interfaces[1].type (line 4) is \"ovs-bridge\", which is not supported by NetworkManager's " +
			"keyfiles, " +
			"the only format that a minimal image supports", false},
	} {
		t.Run(name, func(t *testing.T) {
			params := newEnv(tc.alter)
			_, err := b.RegisterInfraEnv(t.Context(), params)
			b.requireRejected(err, fault.Invalid, tc.want)
			if tc.only {
				return
			}
			before := b.options.DB.Revision()
			_, err = b.UpdateInfraEnv(t.Context(), env.ID.String(), &models.InfraEnvUpdateParams{
				PullSecret: *params.PullSecret, OpenshiftVersion: &params.OpenshiftVersion, ImageType: params.ImageType,
				AdditionalNtpSources: params.AdditionalNtpSources, SSHAuthorizedKey: params.SSHAuthorizedKey,
				AdditionalTrustBundle: &params.AdditionalTrustBundle,
				Proxy:                 params.Proxy, IgnitionConfigOverride: params.IgnitionConfigOverride,
				KernelArguments:     params.KernelArguments,
				StaticNetworkConfig: params.StaticNetworkConfig,
			})
			b.requireRejected(err, fault.Invalid, tc.want)
			require.Equal(t, before, b.options.DB.Revision())
		})
	}
}

// checker simulates base images that reject a kernel argument.
type checker struct{ asked []string }

func (c *checker) Check(version, arch string, recipe *recipe.Recipe) error {
	c.asked = append(c.asked, version+" "+arch)
	for _, a := range recipe.KernelArguments {
		if a.Value == "long" {
			return errors.New("the kernel arguments are too long")
		}
	}
	return nil
}

func TestRegisterInfraEnv_checksBaseImages(t *testing.T) {
	b := newHarness(t)
	images := &checker{}
	b.options.BaseImages = images
	long := models.KernelArguments{{Operation: "append", Value: "long"}}
	_, err := b.RegisterInfraEnv(t.Context(), newEnv(func(p *models.InfraEnvCreateParams) { p.KernelArguments = long }))
	b.requireRejected(err, fault.Invalid, "The kernel arguments are too long.")
	env := b.register()
	_, err = b.UpdateInfraEnv(t.Context(), env.ID.String(), &models.InfraEnvUpdateParams{KernelArguments: long})
	b.requireRejected(err, fault.Invalid, "The kernel arguments are too long.")
	require.Equal(t, []string{"4.20.8 x86_64", "4.20.8 x86_64", "4.20.8 x86_64"}, images.asked)
}

func TestShortURL_codeLifetime(t *testing.T) {
	b := newHarness(t)
	env, other := b.register(), b.register()
	id := env.ID.String()
	first, expires, err := b.CodeOfImage(id)
	require.NoError(t, err)
	require.Regexp(t, "^[a-z2-7]{16}$", first)
	require.Zero(t, expires)
	second, _, err := b.CodeOfImage(other.ID.String())
	require.NoError(t, err)
	require.NotEqual(t, first, second)
	requireInfraEnv := func(code, to string) {
		t.Helper()
		found, err := b.ImageCode(t.Context(), code)
		require.NoError(t, err)
		require.Equal(t, to, found)
	}
	requireNoImage := func(code, want string) {
		t.Helper()
		_, err := b.ImageCode(t.Context(), code)
		b.requireRejected(err, fault.NotFound, want)
	}
	requireInfraEnv(first, id)
	requireInfraEnv(strings.ToUpper(first), id)
	requireInfraEnv(second, other.ID.String())
	for _, guess := range []string{"", "a", strings.Repeat("a", 16), first[:15], first + "a", first[:15] + "/",
		"../../../../../.."} {
		requireNoImage(guess, "revoked or replaced, or never existed")
	}

	renewed, until, err := b.RenewImageCode(t.Context(), id, time.Hour)
	require.NoError(t, err)
	require.Equal(t, noon.Add(time.Hour), until)
	requireNoImage(first, "revoked or replaced")
	requireInfraEnv(renewed, id)
	b.clock.Advance(time.Hour - time.Second)
	requireInfraEnv(renewed, id)
	b.clock.Advance(time.Second)
	requireNoImage(renewed, "The image address of infra-env site expired at 2026-03-01T13:00:00Z; renew its short URL.")

	renewed, until, err = b.RenewImageCode(t.Context(), id, 0)
	require.NoError(t, err)
	require.Zero(t, until)
	requireInfraEnv(renewed, id)
	require.NoError(t, b.RevokeImageCode(t.Context(), id))
	requireNoImage(renewed, "revoked")
	require.NoError(t, b.RevokeImageCode(t.Context(), id), "the second call changes nothing")
	require.NoError(t, b.refreeze(t.Context(), id))
	code, _, err := b.CodeOfImage(id)
	require.NoError(t, err)
	require.Empty(t, code, "a restart does not restore it")

	_, _, err = b.RenewImageCode(t.Context(), id, -time.Second)
	b.requireRejected(err, fault.Invalid, "can't be valid for -1s")
	_, _, err = b.RenewImageCode(t.Context(), "00000000-0000-4000-8000-000000000000", 0)
	b.requireRejected(err, fault.NotFound, "There is no infra-env")
	require.NoError(t, b.DeregisterInfraEnv(t.Context(), other.ID.String()))
	requireNoImage(second, "revoked")
}

func TestNetworkBoot_installedMachineBootsFromDisk(t *testing.T) {
	b := newHarness(t)
	_, h := b.installing()
	env := h.env
	mac := h.inventory().Interfaces[0].MacAddress
	require.NoError(t, b.CheckNetworkBoot(env, mac), "the host is being installed")
	require.NoError(t, b.CheckNetworkBoot(env, "00:00:00:00:00:99"), "the machine is not registered")
	require.NoError(t, h.progress(models.HostStageWritingImageToDisk, ""))
	require.NoError(t, b.CheckNetworkBoot(env, mac))
	require.NoError(t, h.progress(models.HostStageRebooting, ""))
	b.requireRejected(b.CheckNetworkBoot(env, mac), fault.NotFound, "boots from its disk")
	b.requireRejected(b.CheckNetworkBoot(env, strings.ToUpper(mac)), fault.NotFound, "boots from its disk")
	require.NoError(t, b.CheckNetworkBoot(env, "00:00:00:00:00:99"))
}

// In any order of requests, the recipe follows from the infra-env's fields, and its time is that of
// its last change.
func TestRecipe_anyOrderOfChanges(t *testing.T) {
	b := newHarness(t)
	b.options.Images.Agent = "quay.io/parts/agent:1"
	id := b.register().ID.String()
	random := rand.New(rand.NewPCG(1, 2))
	pick := func(values ...string) *string { return &values[random.IntN(len(values))] }
	previous := b.recipe(id)
	for range 60 {
		b.clock.Advance(time.Second)
		params := &models.InfraEnvUpdateParams{
			AdditionalNtpSources: pick("", "ntp1.example", "ntp2.example"),
			Proxy:                &models.Proxy{HTTPProxy: pick("", "http://p.example:1")},
			ImageType:            models.ImageType(*pick("", "full-iso", "minimal-iso")),
		}
		if random.IntN(2) == 0 {
			params.KernelArguments = models.KernelArguments{{Operation: *pick("append", "delete"),
				Value: *pick("a", "b")}}
		}
		b.patch(id, params)
		row, err := record.ReadInfraEnv(b.options.DB, id)
		require.NoError(t, err)
		made, err := b.render(t.Context(), row, b.options.Images.Agent)
		require.NoError(t, err)
		recipe := b.recipe(id)
		require.Equal(t, made.recipe.Digest, recipe.Digest)
		require.Equal(t, made.inputs, row.Recipe.Inputs)
		if recipe.Digest == previous.Digest {
			require.Equal(t, previous.Modified, recipe.Modified)
		} else {
			require.Equal(t, b.clock.Now().UTC(), recipe.Modified)
		}
		previous = recipe
	}
}

func TestRecipe_concurrentChanges(t *testing.T) {
	b := newHarness(t)
	b.options.Images.Agent = "quay.io/parts/agent:1"
	id := b.register().ID.String()
	changes := []*models.InfraEnvUpdateParams{
		{AdditionalNtpSources: conv.Pointer("ntp.example")},
		{Proxy: &models.Proxy{HTTPProxy: conv.Pointer("http://p.example:1")}},
		{Proxy: &models.Proxy{NoProxy: conv.Pointer(".example")}},
		{SSHAuthorizedKey: conv.Pointer(sshKey("one"))},
		{KernelArguments: models.KernelArguments{{Operation: "append", Value: "a"}}},
		{ImageType: models.ImageTypeMinimalIso},
	}
	var group errgroup.Group
	for _, params := range changes {
		group.Go(func() error {
			_, err := b.UpdateInfraEnv(t.Context(), id, params)
			return err
		})
	}
	require.NoError(t, group.Wait())
	row, err := record.ReadInfraEnv(b.options.DB, id)
	require.NoError(t, err)
	require.Equal(t, []string{"ntp.example", "http://p.example:1", ".example", sshKey("one"), "minimal-iso"},
		[]string{row.API.AdditionalNtpSources, *row.API.Proxy.HTTPProxy, *row.API.Proxy.NoProxy,
			row.API.SSHAuthorizedKey, string(*row.API.Type)})
	made, err := b.render(t.Context(), row, b.options.Images.Agent)
	require.NoError(t, err)
	require.Equal(t, made.recipe.Digest, b.recipe(id).Digest)
}

func TestRecipe_survivesRestart(t *testing.T) {
	b := newHarness(t)
	id := b.register().ID.String()
	recipe := b.recipe(id)
	b.Engine = b.engineOver(b.options.DB)
	b.releases.failure = errors.New("the registry is unavailable")
	b.run(func() { require.Equal(t, recipe, b.recipe(id)) })
	require.Equal(t, recipe, b.recipe(id))
}

func TestInfraEnv_fromEarlierReleaseIsCompleted(t *testing.T) {
	b := newHarness(t)
	b.options.Images.Agent = "quay.io/parts/agent:1"
	id := b.register().ID.String()
	want := b.recipe(id)
	require.NoError(t, b.update(t.Context(), func(c *change) error {
		row, err := c.infraEnv(id)
		if err != nil {
			return err
		}
		require.NoError(t, c.dropImageCode(row))
		row.Recipe, row.Code = record.RecipeState{}, record.ImageCode{}
		c.saveInfraEnv(row)
		return record.Recipes.Delete(c.tx, id)
	}))
	events := b.names(event.Filter{InfraEnvID: id})
	require.NoError(t, b.refreeze(t.Context(), id))
	digest, err := b.RecipeDigest(id)
	require.NoError(t, err)
	require.Equal(t, want.Digest, digest)
	code, _, err := b.CodeOfImage(id)
	require.NoError(t, err)
	require.Len(t, code, imageCodeLength)
	require.Equal(t, events, b.names(event.Filter{InfraEnvID: id}), "no event")
}

func TestInfraEnv_hasReleaseOfItsCluster(t *testing.T) {
	b := newHarness(t)
	cluster, env := b.singleNode()
	shown, err := b.InfraEnv(env)
	require.NoError(t, err)
	require.Equal(t, cluster, shown.ClusterID.String())
	_, err = b.RegisterInfraEnv(t.Context(), newEnv(func(p *models.InfraEnvCreateParams) {
		id := strfmt.UUID("00000000-0000-4000-8000-000000000000")
		p.ClusterID = &id
	}))
	b.requireRejected(err, fault.NotFound, "There is no cluster")
	_, err = b.RegisterInfraEnv(t.Context(), newEnv(func(p *models.InfraEnvCreateParams) {
		p.ClusterID, p.CPUArchitecture = &shown.ClusterID, "arm64"
	}))
	b.requireRejected(err, fault.Invalid, "Specified CPU architecture (arm64) doesn't match")
	b.options.ReleaseList = append(b.options.ReleaseList, ReleaseImage{OpenshiftVersion: "4.20.8",
		CPUArchitecture: "arm64",
		URL:             "quay.io/release:4.20.8-arm"})
	arm := b.register(func(p *models.InfraEnvCreateParams) { p.CPUArchitecture = "aarch64" })
	require.Equal(t, "arm64", arm.CPUArchitecture)
	for list, count := range map[string]int{"": 2, cluster: 1, "00000000-0000-4000-8000-000000000000": 0} {
		envs, err := b.InfraEnvs(list)
		require.NoError(t, err)
		require.Len(t, envs, count)
	}
	b.requireRejected(b.DeregisterInfraEnv(t.Context(), "00000000-0000-4000-8000-000000000000"), fault.NotFound,
		"There is no infra-env")
	b.host(env, 1)
	b.requireRejected(b.DeregisterInfraEnv(t.Context(), env), fault.Conflict,
		"still has 1 host; delete its hosts first.")
}
