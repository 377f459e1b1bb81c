package appliance_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/cavaliercoder/go-cpio"
	"github.com/go-openapi/strfmt"
	"github.com/go-openapi/swag/conv"
	"github.com/openshift/assisted-service/client/installer"
	"github.com/openshift/assisted-service/models"
	"github.com/stretchr/testify/require"

	"landfall/ignition"
)

func (d *testAppliance) registerInfraEnv(alter func(*models.InfraEnvCreateParams)) (*models.InfraEnv, error) {
	params := &models.InfraEnvCreateParams{Name: conv.Pointer("env"), PullSecret: conv.Pointer(pullSecret),
		OpenshiftVersion: d.site.release.Version}
	if alter != nil {
		alter(params)
	}
	created, err := d.Installer.RegisterInfraEnv(d.Context(),
		&installer.RegisterInfraEnvParams{InfraenvCreateParams: params})
	if err != nil {
		return nil, err
	}
	return created.Payload, nil
}

func (d *testAppliance) updateInfraEnv(id strfmt.UUID, params *models.InfraEnvUpdateParams) (*models.InfraEnv, error) {
	updated, err := d.Installer.UpdateInfraEnv(d.Context(), &installer.UpdateInfraEnvParams{InfraEnvID: id,
		InfraEnvUpdateParams: params})
	if err != nil {
		return nil, err
	}
	return updated.Payload, nil
}

func (d *testAppliance) getInfraEnv(id strfmt.UUID) (*models.InfraEnv, error) {
	got, err := d.Installer.GetInfraEnv(d.Context(), &installer.GetInfraEnvParams{InfraEnvID: id})
	if err != nil {
		return nil, err
	}
	return got.Payload, nil
}

// infraEnvFile downloads a file of the infra-env that the parameters name.
func (d *testAppliance) infraEnvFile(params *installer.V2DownloadInfraEnvFilesParams) (string, error) {
	var content bytes.Buffer
	_, err := d.Installer.V2DownloadInfraEnvFiles(d.Context(), params, &content)
	return content.String(), err
}

// staticNetwork returns the static network of one machine with the given address.
func staticNetwork(address string) []*models.HostStaticNetworkConfig {
	return []*models.HostStaticNetworkConfig{{
		NetworkYaml: "interfaces:\n- name: eth0\n  type: ethernet\n  ipv4: {enabled: true, address: [{ip: " +
			address + ", prefix-length: 24}]}\n",
		MacInterfaceMap: models.MacInterfaceMap{{MacAddress: "52:54:00:00:00:01", LogicalNicName: "eth0"}},
	}}
}

func TestInfraEnvs_lifecycle(t *testing.T) {
	d := startAppliance(t)
	cluster := d.cluster()
	env, err := d.registerInfraEnv(nil)
	require.NoError(t, err)
	got, err := d.getInfraEnv(*env.ID)
	require.NoError(t, err)
	env.UpdatedAt = got.UpdatedAt // the image is made after the creation
	require.Equal(t, env, got)
	require.Equal(t, models.ImageTypeFullIso, *got.Type)
	require.Equal(t, "x86_64", got.CPUArchitecture)
	require.True(t, got.PullSecretSet)
	bound := d.infraEnv(&cluster)

	unknown := missingID()
	for list, want := range map[*strfmt.UUID][]strfmt.UUID{nil: {*env.ID, bound}, &cluster: {bound}, &unknown: {}} {
		listed, err := d.Installer.ListInfraEnvs(t.Context(), &installer.ListInfraEnvsParams{ClusterID: list,
			Owner: conv.Pointer("admin")})
		require.NoError(t, err)
		ids := []strfmt.UUID{}
		for _, env := range listed.Payload {
			ids = append(ids, *env.ID)
		}
		require.ElementsMatch(t, want, ids)
	}

	_, err = d.getInfraEnv(unknown)
	refused(t, err, http.StatusNotFound)
	_, err = d.registerInfraEnv(func(p *models.InfraEnvCreateParams) { p.PullSecret = conv.Pointer("{}") })
	refused(t, err, http.StatusBadRequest)
	_, err = d.registerInfraEnv(func(p *models.InfraEnvCreateParams) { p.ClusterID = &unknown })
	refused(t, err, http.StatusNotFound)

	deregister := func(id strfmt.UUID) error {
		_, err := d.Installer.DeregisterInfraEnv(t.Context(), &installer.DeregisterInfraEnvParams{InfraEnvID: id})
		return err
	}
	host := d.host(*env.ID)
	refused(t, deregister(*env.ID), http.StatusConflict)
	_, err = d.Installer.V2DeregisterHost(t.Context(), &installer.V2DeregisterHostParams{InfraEnvID: *env.ID,
		HostID: host})
	require.NoError(t, err)
	require.NoError(t, deregister(*env.ID))
	refused(t, deregister(*env.ID), http.StatusNotFound)
}

func TestInfraEnvUpdate_allOrNothing(t *testing.T) {
	d := startAppliance(t)
	env, err := d.registerInfraEnv(nil)
	require.NoError(t, err)
	changed, err := d.updateInfraEnv(*env.ID, &models.InfraEnvUpdateParams{KernelArguments: models.KernelArguments{
		{Operation: models.KernelArgumentOperationAppend, Value: "rd.net.timeout.carrier=60"},
		{Operation: models.KernelArgumentOperationDelete, Value: "rw"},
	}})
	require.NoError(t, err)
	require.JSONEq(t,
		`[{"operation":"append","value":"rd.net.timeout.carrier=60"},{"operation":"delete","value":"rw"}]`,
		*changed.KernelArguments)
	require.True(t, changed.UpdatedAt.After(*env.UpdatedAt))

	_, err = d.updateInfraEnv(missingID(), &models.InfraEnvUpdateParams{})
	refused(t, err, http.StatusNotFound)
	for what, params := range map[string]*models.InfraEnvUpdateParams{
		"an invalid override": {IgnitionConfigOverride: `{"ignition":{"version":"9.9.9"}}`},
		"arguments beyond the base's area": {KernelArguments: models.KernelArguments{{Operation: "append",
			Value: "a=" + strings.Repeat("x", 4096)}}},
		"an invalid address":  {StaticNetworkConfig: staticNetwork("192.0.2.256")},
		"an unsupported type": {ImageType: models.ImageTypeDisconnectedIso},
	} {
		_, err := d.updateInfraEnv(*env.ID, params)
		require.Error(t, err, what)
		refused(t, err, http.StatusBadRequest)
	}
	got, err := d.getInfraEnv(*env.ID)
	require.NoError(t, err)
	got.UpdatedAt = changed.UpdatedAt // the image may have been generated since
	require.Equal(t, changed, got, "a rejected update changes nothing")
}

func TestInfraEnvs_iPXEScripts(t *testing.T) {
	d := startAppliance(t)
	env, err := d.registerInfraEnv(func(p *models.InfraEnvCreateParams) {
		p.KernelArguments = models.KernelArguments{{Operation: "append", Value: "rd.debug"}}
	})
	require.NoError(t, err)
	base, _, _ := strings.Cut(env.DownloadURL, "/byid/")
	of := "?arch=x86_64&version=" + env.OpenshiftVersion
	params := installer.V2DownloadInfraEnvFilesParams{InfraEnvID: *env.ID, FileName: "ipxe-script"}
	boot, err := d.infraEnvFile(&params)
	require.NoError(t, err)
	require.Equal(t, "#!ipxe\n"+
		"initrd --name initrd "+base+"/images/"+env.ID.String()+"/pxe-initrd"+of+"\n"+
		"kernel "+base+"/boot-artifacts/kernel"+of+" initrd=initrd coreos.live.rootfs_url="+
		base+"/boot-artifacts/rootfs"+of+
		" random.trust_cpu=on rd.luks.options=discard ignition.firstboot ignition.platform.id=metal console=tty1 "+
		"console=ttyS1,115200n8"+
		` coreos.inst.persistent-kargs="console=tty1 console=ttyS1,115200n8" rd.debug`+"\nboot\n", boot)

	params.IpxeScriptType = conv.Pointer("boot-order-control")
	chain, err := d.infraEnvFile(&params)
	require.NoError(t, err)
	require.Equal(t, "#!ipxe\nchain "+d.url[:strings.Index(d.url, "/api/")]+"/api/assisted-install/v2/infra-envs/"+
		env.ID.String()+"/downloads/files?file_name=ipxe-script&mac=${net0/mac}\n", chain)
	mac := strfmt.MAC("52:54:00:00:00:77")
	params.Mac = &mac
	again, err := d.infraEnvFile(&params)
	require.NoError(t, err)
	require.Equal(t, boot, again, "an unknown machine boots")

	signed, err := d.Installer.GetInfraEnvPresignedFileURL(t.Context(), &installer.GetInfraEnvPresignedFileURLParams{
		InfraEnvID: *env.ID, FileName: "ipxe-script", IpxeScriptType: conv.Pointer("boot-order-control"),
	})
	require.NoError(t, err)
	response, err := http.Get(*signed.Payload.URL)
	require.NoError(t, err)
	body, err := io.ReadAll(response.Body)
	require.NoError(t, errors.Join(err, response.Body.Close()))
	require.Equal(t, chain, string(body))
	_, err = d.Installer.GetInfraEnvPresignedFileURL(t.Context(),
		&installer.GetInfraEnvPresignedFileURLParams{InfraEnvID: missingID(), FileName: "discovery.ign"})
	refused(t, err, http.StatusNotFound)
}

func TestInfraEnvs_files(t *testing.T) {
	d := startAppliance(t)
	env, err := d.registerInfraEnv(nil)
	require.NoError(t, err)
	download := func(name string) string {
		content, err := d.infraEnvFile(&installer.V2DownloadInfraEnvFilesParams{InfraEnvID: *env.ID, FileName: name})
		require.NoError(t, err)
		return content
	}
	config, err := ignition.ReadDiscovery([]byte(download("discovery.ign")))
	require.NoError(t, err)
	require.Equal(t, env.ID.String(), config.InfraEnvID)
	require.Empty(t, download("static-network-config"), "all machines use DHCP")
	_, nothing, err := d.Installer.DownloadMinimalInitrd(t.Context(),
		&installer.DownloadMinimalInitrdParams{InfraEnvID: *env.ID}, io.Discard)
	require.NoError(t, err)
	require.NotNil(t, nothing)

	_, err = d.updateInfraEnv(*env.ID, &models.InfraEnvUpdateParams{StaticNetworkConfig: staticNetwork("192.0.2.2")})
	require.NoError(t, err)
	require.Equal(t, []string{"/etc/assisted/network/host0/mac_interface.ini",
		"/etc/assisted/network/host0/ymlFile0.yml"}, tarNames(t, download("static-network-config")))
	var initrd bytes.Buffer
	_, nothing, err = d.Installer.DownloadMinimalInitrd(t.Context(),
		&installer.DownloadMinimalInitrdParams{InfraEnvID: *env.ID}, &initrd)
	require.NoError(t, err)
	require.Nil(t, nothing)
	require.Contains(t, cpioFile(t, &initrd, "etc/coreos-firstboot-network/host0-eth0.nmconnection"),
		"address1=192.0.2.2/24\n")

	image, err := d.Installer.GetInfraEnvDownloadURL(t.Context(),
		&installer.GetInfraEnvDownloadURLParams{InfraEnvID: *env.ID})
	require.NoError(t, err)
	require.Equal(t, env.DownloadURL, *image.Payload.URL)
	_, err = d.Installer.RegenerateInfraEnvSigningKey(t.Context(),
		&installer.RegenerateInfraEnvSigningKeyParams{InfraEnvID: *env.ID})
	require.NoError(t, err)

	t.Run("missing files", func(t *testing.T) {
		for _, name := range []string{"discovery.ign", "ipxe-script", "static-network-config"} {
			_, err := d.infraEnvFile(&installer.V2DownloadInfraEnvFilesParams{InfraEnvID: missingID(), FileName: name})
			refused(t, err, http.StatusNotFound)
		}
		_, _, err = d.Installer.DownloadMinimalInitrd(t.Context(),
			&installer.DownloadMinimalInitrdParams{InfraEnvID: missingID()}, io.Discard)
		refused(t, err, http.StatusNotFound)
		_, err = d.Installer.GetInfraEnvDownloadURL(t.Context(),
			&installer.GetInfraEnvDownloadURLParams{InfraEnvID: missingID()})
		refused(t, err, http.StatusNotFound)
		_, err = d.Installer.RegenerateInfraEnvSigningKey(t.Context(),
			&installer.RegenerateInfraEnvSigningKeyParams{InfraEnvID: missingID()})
		refused(t, err, http.StatusNotFound)
	})
	t.Run("invalid parameters", func(t *testing.T) {
		_, err := d.infraEnvFile(&installer.V2DownloadInfraEnvFilesParams{InfraEnvID: *env.ID,
			FileName: "discovery.ign", IpxeScriptType: conv.Pointer("boot-order-control")})
		refused(t, err, http.StatusBadRequest)
		for query, contains := range map[string]string{
			"":                             "file_name in query is required",
			"?file_name=shadow":            `file_name in query is "shadow"`,
			"?file_name=ipxe-script&mac=x": `mac in query is "x"`,
			"?file_name=ipxe-script&ipxe_script_type=x":        `ipxe_script_type in query is "x"`,
			"?file_name=discovery.ign&discovery_iso_type=half": `discovery_iso_type in query is "half"`,
		} {
			var answer struct{ Message string }
			call(t, http.MethodGet, d.url+"/infra-envs/"+env.ID.String()+"/downloads/files"+query, nil).read(t,
				http.StatusUnprocessableEntity, &answer)
			require.Contains(t, answer.Message, contains)
		}
	})
}

func tarNames(t *testing.T, archive string) []string {
	t.Helper()
	var names []string
	for r := tar.NewReader(strings.NewReader(archive)); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return names
		}
		require.NoError(t, err)
		require.EqualValues(t, 0o600, header.Mode)
		names = append(names, header.Name)
	}
}

// cpioFile returns a file of a compressed cpio archive.
func cpioFile(t *testing.T, archive io.Reader, name string) string {
	t.Helper()
	z, err := gzip.NewReader(archive)
	require.NoError(t, err)
	for r := cpio.NewReader(z); ; {
		header, err := r.Next()
		require.NoError(t, err, "%s is missing", name)
		if header.Name == name {
			content, err := io.ReadAll(r)
			require.NoError(t, err)
			return string(content)
		}
	}
}

func TestMinimalImage_rejectedWithoutNetwork(t *testing.T) {
	d := startAppliance(t)
	switched := staticNetwork("192.0.2.2")
	switched[0].NetworkYaml += "- name: br0\n  type: ovs-bridge\n  bridge: {port: [{name: eth0}]}\n"
	env, err := d.registerInfraEnv(func(p *models.InfraEnvCreateParams) { p.StaticNetworkConfig = switched })
	require.NoError(t, err)
	requireDiscoveryISO(t, env.DownloadURL)

	var answer models.Error
	call(t, http.MethodGet, strings.Replace(env.DownloadURL, "full.iso", "minimal.iso", 1), nil).read(t,
		http.StatusConflict, &answer)
	require.Contains(t, *answer.Reason,
		`host 0: interfaces[1].type (line 6) is "ovs-bridge", which is not supported by NetworkManager's keyfiles`)
	_, err = d.updateInfraEnv(*env.ID, &models.InfraEnvUpdateParams{ImageType: models.ImageTypeMinimalIso})
	refused(t, err, http.StatusBadRequest)
}

func TestInfraEnvs_withoutPullSecretOfCluster(t *testing.T) {
	d := startAppliance(t)
	cluster := d.cluster()
	created, err := d.registerInfraEnv(func(p *models.InfraEnvCreateParams) {
		p.PullSecret, p.ClusterID = conv.Pointer(""), &cluster
	})
	require.NoError(t, err)
	require.True(t, created.PullSecretSet)
	_, err = d.registerInfraEnv(func(p *models.InfraEnvCreateParams) { p.PullSecret = conv.Pointer("") })
	require.Error(t, err, "neither a cluster nor a pull secret")
}
