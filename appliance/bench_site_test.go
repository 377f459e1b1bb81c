package appliance_test

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-openapi/strfmt"
	"github.com/go-openapi/swag/conv"
	"github.com/google/uuid"
	"github.com/openshift/assisted-service/models"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"landfall/appliance/config"
	"landfall/appliance/engine"
	"landfall/appliance/engine/inventory"
	"landfall/appliance/keyring"
	"landfall/appliance/mirror"
	"landfall/appliance/process"
	"landfall/appliance/release"
	"landfall/ignition"
	"landfall/store"
)

const apiPath = "/api/assisted-install/v2"

// startQuietly runs an appliance with the program's settings for garbage collection and threads. It
// discards the log.
func (s *site) startQuietly(tb testing.TB) (address string, stop func()) {
	tb.Cleanup(process.TuneCollector())
	tb.Cleanup(process.AddThreads())
	return s.startLogging(tb, slog.New(slog.NewJSONHandler(io.Discard, nil)))
}

// hostRef identifies a host in the API's paths.
type hostRef struct{ infraEnv, id string }

func (h hostRef) instructions() string {
	return apiPath + "/infra-envs/" + h.infraEnv + "/hosts/" + h.id + "/instructions"
}

// seeded lists the objects that seed created.
type seeded struct {
	infraEnvs []string // one for each cluster
	pool      string   // infra-env without a cluster
	hosts     []hostRef
}

// seed writes clusters into the site's database with an engine of its own. Each cluster has an
// infra-env and hostsEach hosts with an inventory.
func (s *site) seed(tb testing.TB, clusters, hostsEach int) *seeded {
	tb.Helper()
	ctx := tb.Context()
	db, err := store.Open(ctx, s.config.DataDir, store.Options{
		Keys: keyring.New(s.config.DataDir, keyring.Options{}).Open,
	})
	require.NoError(tb, err)
	defer func() { require.NoError(tb, db.Close()) }()
	rules, err := mirror.Load(mirror.Files{})
	require.NoError(tb, err)
	client := mirror.NewClient(rules, mirror.ClientOptions{})
	releases, err := release.New(release.Options{Mirror: client, CacheDir: filepath.Join(tb.TempDir(), "cache")})
	require.NoError(tb, err)
	defer func() { require.NoError(tb, releases.Close()) }()
	e, err := engine.New(engine.Options{
		DB: db, Releases: releases, Mirror: rules, URL: "http://127.0.0.1",
		ReleaseList: []engine.ReleaseImage{{OpenshiftVersion: s.release.Version, CPUArchitecture: "x86_64",
			URL: s.release.Release, Default: true}},
	})
	require.NoError(tb, err)

	all := &seeded{infraEnvs: make([]string, clusters), hosts: make([]hostRef, clusters*hostsEach)}
	newInfraEnv := func(cluster *strfmt.UUID) (string, error) {
		env, err := e.RegisterInfraEnv(ctx, &models.InfraEnvCreateParams{
			Name: conv.Pointer("env"), ClusterID: cluster, PullSecret: conv.Pointer(pullSecret),
			OpenshiftVersion: s.release.Version,
		})
		if err != nil {
			return "", err
		}
		return env.ID.String(), nil
	}
	all.pool, err = newInfraEnv(nil)
	require.NoError(tb, err)
	var group errgroup.Group
	group.SetLimit(64) // several updates share a commit
	for i := range clusters {
		group.Go(func() error {
			cluster, err := e.RegisterCluster(ctx, &models.ClusterCreateParams{
				Name: conv.Pointer(fmt.Sprintf("seeded-%d", i)), BaseDNSDomain: "site.test",
				OpenshiftVersion: conv.Pointer(s.release.Version), PullSecret: conv.Pointer(pullSecret),
				APIVips:     []*models.APIVip{{IP: "192.168.100.4"}},
				IngressVips: []*models.IngressVip{{IP: "192.168.100.5"}},
			})
			if err != nil {
				return err
			}
			if all.infraEnvs[i], err = newInfraEnv(cluster.ID); err != nil {
				return err
			}
			for n := range hostsEach {
				host := hostRef{all.infraEnvs[i], uuid.NewString()}
				all.hosts[i*hostsEach+n] = host
				id := strfmt.UUID(host.id)
				if _, err := e.RegisterHost(ctx, host.infraEnv, &models.HostCreateParams{HostID: &id,
					DiscoveryAgentVersion: "agent"}); err != nil {
					return err
				}
				reply := &models.StepReply{StepType: models.StepTypeInventory, StepID: "inventory-1",
					Output: string(inventoryOf(tb, i*hostsEach+n, reportedMemory))}
				if err := e.ApplyStepReply(ctx, host.infraEnv, host.id, reply); err != nil {
					return err
				}
			}
			return nil
		})
	}
	require.NoError(tb, group.Wait())
	return all
}

// reportedMemory is the memory of hosts in bytes. Its last digits are easy to find in a text.
const reportedMemory = int64(64<<30) + 123_456_789

// inventoryOf returns the inventory of a large server of about 25 KB, as the agent sends it: some
// boot disks, many data disks with shortened SMART reports, and many network functions.
func inventoryOf(tb testing.TB, number int, usable int64) []byte {
	return inventoryWith(tb, number, usable, 4)
}

// inventoryWith is inventoryOf with a given number of parts of the SMART report for each disk: 4
// parts make 22 KB, 54 make 150 KB.
func inventoryWith(tb testing.TB, number int, usable int64, smart int) []byte {
	address := func(n int) string { return fmt.Sprintf("192.168.100.%d/24", 10+n%240) }
	inv := &models.Inventory{
		BmcAddress: "10.0.0.7", Boot: &models.Boot{CurrentBootMode: "uefi",
			SecureBootState: models.SecureBootStateDisabled},
		CPU: &models.CPU{
			Architecture: "x86_64", Count: 64, Frequency: 2900, ModelName: "Xeon Gold 6338N",
			Flags: strings.Fields(strings.Repeat("fpu vme de pse tsc msr pae mce cx8 apic sep mtrr pge mca cmov pat ",
				8)),
		},
		Hostname: fmt.Sprintf("host-%d", number),
		Memory: &models.Memory{PhysicalBytes: 128 << 30, UsableBytes: usable,
			PhysicalBytesMethod: models.MemoryMethodDmidecode},
		Routes: []*models.Route{
			{Destination: "0.0.0.0", Family: 2, Gateway: "192.168.100.1", Interface: "eno1", Metric: 100},
			{Destination: "192.168.100.0", Family: 2, Interface: "eno1", Metric: 100},
		},
		SystemVendor: &models.SystemVendor{Manufacturer: "Maker", ProductName: "Server",
			SerialNumber: fmt.Sprintf("SN%06d", number)},
	}
	for i := range 16 {
		name := fmt.Sprintf("nvme%dn1", i)
		inv.Disks = append(inv.Disks, &models.Disk{
			ID: "/dev/disk/by-id/nvme-eui." + name, ByID: "/dev/disk/by-id/nvme-eui." + name,
			ByPath:    fmt.Sprintf("/dev/disk/by-path/pci-0000:%02x:00.0-nvme-1", i),
			DriveType: models.DriveTypeSSD, HasUUID: true, Model: "Data Centre NVMe 3840G", Name: name,
			Path: "/dev/" + name, Serial: "S" + name, SizeBytes: 3_840_000_000_000,
			Smart: `{"json_format_version":[1,0],"device":{"name":"/dev/` + name +
				`","type":"nvme","protocol":"NVMe"},"smart_status":{"passed":true,"nvme":{"value":0}},` +
				strings.Repeat(
					`"nvme_smart_health_information_log":{"critical_warning":0,"temperature":31,"available_spare":100,"percentage_used":2},`, smart) + `"power_cycle_count":12}`,
			Wwn: "eui." + name,
		})
	}
	for i := range 12 {
		nic := &models.Interface{
			Biosdevname: fmt.Sprintf("em%d", i+1), Flags: []string{"up", "broadcast", "multicast"}, HasCarrier: i == 0,
			IPV4Addresses: []string{}, IPV6Addresses: []string{},
			MacAddress: fmt.Sprintf("52:54:00:%02x:%02x:%02x", number>>8&0xff, number&0xff, i), Mtu: 1500,
			Name:    fmt.Sprintf("eno%d", i+1),
			Product: "0x159b", SpeedMbps: 25000, Type: "physical", Vendor: "0x8086",
		}
		if i == 0 {
			nic.IPV4Addresses = []string{address(number)}
		}
		inv.Interfaces = append(inv.Interfaces, nic)
	}
	text, err := inventory.Encode(inv, nil)
	require.NoError(tb, err)
	return []byte(text)
}

// rawClient is a client with little overhead: it has one connection, writes requests unchanged and
// reads responses into one buffer.
type rawClient struct {
	conn  net.Conn
	in    *bufio.Reader
	out   bytes.Buffer
	body  []byte
	token string // of an agent; "" for none
}

// dial is the function dial, over TLS if the site has it.
func (s *site) dial(tb testing.TB, address string) *rawClient {
	tb.Helper()
	w := dial(tb, address)
	if !s.config.TLS.Enabled {
		return w
	}
	// At the first start, the authority is made after the port is open.
	verify := func(state tls.ConnectionState) error {
		ca, err := os.ReadFile(filepath.Join(s.config.DataDir, "ca.crt"))
		if err != nil {
			return err
		}
		roots := x509.NewCertPool()
		roots.AppendCertsFromPEM(ca)
		_, err = state.PeerCertificates[0].Verify(x509.VerifyOptions{Roots: roots, DNSName: "127.0.0.1"})
		return err
	}
	line := tls.Client(w.conn, &tls.Config{InsecureSkipVerify: true, VerifyConnection: verify})
	require.NoError(tb, line.HandshakeContext(tb.Context()))
	w.in = bufio.NewReaderSize(line, 64<<10)
	w.conn = line
	return w
}

// agentTokens returns the token in the image of each host's infra-env, or none if the site does not
// authenticate agents.
func (s *site) agentTokens(tb testing.TB, address string, hosts []hostRef) map[string]string {
	tb.Helper()
	tokens := map[string]string{}
	if s.config.Auth == config.AuthNone {
		return tokens
	}
	admin := &http.Client{Transport: headerSender{"Authorization",
		"Bearer " + setUp(tb, http.DefaultClient, address, s.setupCode(tb), password), http.DefaultTransport}}
	for _, host := range hosts {
		if tokens[host.infraEnv] != "" {
			continue
		}
		discovery := new(ignition.Discovered)
		require.Eventually(tb, func() bool { // the keys are generated after the start
			text := callWith(tb, admin, http.MethodGet,
				address+apiPath+"/infra-envs/"+host.infraEnv+"/downloads/files?file_name=discovery.ign", nil).body
			var err error
			discovery, err = ignition.ReadDiscovery(text)
			return err == nil && discovery.PullSecretToken != ""
		}, time.Minute, 10*time.Millisecond)
		tokens[host.infraEnv] = discovery.PullSecretToken
	}
	return tokens
}

func dial(tb testing.TB, address string) *rawClient {
	tb.Helper()
	base, err := url.Parse(address)
	require.NoError(tb, err)
	conn, err := net.Dial("tcp", base.Host)
	require.NoError(tb, err)
	tb.Cleanup(func() { require.NoError(tb, conn.Close()) })
	return &rawClient{conn: conn, in: bufio.NewReaderSize(conn, 64<<10)}
}

// do sends a request and returns status and body of the response. The body is valid until the next
// call.
func (w *rawClient) do(method, path string, body []byte) (status int, answer []byte, err error) {
	w.out.Reset()
	fmt.Fprintf(&w.out, "%s %s HTTP/1.1\r\nHost: appliance\r\n", method, path)
	if w.token != "" {
		fmt.Fprintf(&w.out, "X-Secret-Key: %s\r\n", w.token)
	}
	if body != nil {
		fmt.Fprintf(&w.out, "Content-Type: application/json\r\nContent-Length: %d\r\n", len(body))
	}
	w.out.WriteString("\r\n")
	w.out.Write(body)
	if _, err := w.conn.Write(w.out.Bytes()); err != nil {
		return 0, nil, err
	}
	status, length, err := w.header()
	if err != nil {
		return 0, nil, err
	}
	w.body = w.body[:0]
	if length >= 0 {
		err := w.take(length)
		return status, w.body, err
	}
	for {
		line, err := w.in.ReadSlice('\n')
		if err != nil {
			return 0, nil, err
		}
		size, err := strconv.ParseInt(string(bytes.TrimSpace(line)), 16, 64)
		if err != nil {
			return 0, nil, err
		}
		if err := w.take(int(size)); err != nil {
			return 0, nil, err
		}
		if _, err := w.in.Discard(2); err != nil || size == 0 {
			return status, w.body, err
		}
	}
}

// header reads the header of a response. The length is -1 for a chunked body.
func (w *rawClient) header() (status, length int, err error) {
	line, err := w.in.ReadSlice('\n')
	if err != nil {
		return 0, 0, err
	}
	if len(line) < 12 {
		return 0, 0, errors.New("the answer is no HTTP")
	}
	if status, err = strconv.Atoi(string(line[9:12])); err != nil {
		return 0, 0, err
	}
	for {
		line, err := w.in.ReadSlice('\n')
		if err != nil {
			return 0, 0, err
		}
		if len(line) == 2 {
			return status, length, nil
		}
		if value, ok := bytes.CutPrefix(line, []byte("Content-Length: ")); ok {
			if length, err = strconv.Atoi(string(bytes.TrimSpace(value))); err != nil {
				return 0, 0, err
			}
		}
		if bytes.HasPrefix(line, []byte("Transfer-Encoding: chunked")) {
			length = -1
		}
	}
}

func (w *rawClient) take(n int) error {
	before := len(w.body)
	if cap(w.body) < before+n {
		grown := make([]byte, before, 2*(before+n))
		copy(grown, w.body)
		w.body = grown
	}
	w.body = w.body[:before+n]
	_, err := io.ReadFull(w.in, w.body[before:])
	return err
}
