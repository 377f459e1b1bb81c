package simulate

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-openapi/strfmt"
	"github.com/go-openapi/swag/conv"
	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/openshift/assisted-service/models"

	"landfall/appliance/mirror"
	"landfall/ignition"
)

// freeAddressLimit is the maximum number of free addresses that the agent reports per network.
const freeAddressLimit = 8000

// pullRate is the rate of image pulls in bytes per second.
const pullRate = 120e6

// logsTime is the time that a host takes to collect its logs.
const logsTime = 10 * time.Second

// arguments is a model of a step's arguments.
type arguments interface {
	Validate(strfmt.Registry) error
}

// decodeArguments parses the arguments of a step like the agent: it checks the number of arguments,
// and decodes the first argument as JSON of a valid model.
func decodeArguments(name string, args []string, count int, into arguments) error {
	if len(args) != count {
		return fmt.Errorf("%s requires %d arguments, but got %d: %q", name, count, len(args), args)
	}
	if into == nil {
		return nil
	}
	if err := json.Unmarshal([]byte(args[0]), into); err != nil {
		return fmt.Errorf("%s cannot parse the argument %q: %w", name, args[0], err)
	}
	if err := into.Validate(strfmt.Default); err != nil {
		return fmt.Errorf("%s rejects the argument %q: %w", name, args[0], err)
	}
	return nil
}

// perform executes a step.
func (s *system) perform(ctx context.Context, step *models.Step) outcome {
	perform, ok := s.steps()[step.StepType]
	if !ok {
		return failed(exitFailed, fmt.Errorf("steps of type %q are not supported", step.StepType))
	}
	return perform(ctx, step.Args)
}

func (s *system) steps() map[models.StepType]func(context.Context, []string) outcome {
	return map[models.StepType]func(context.Context, []string) outcome{
		models.StepTypeInventory:                  s.readInventory,
		models.StepTypeConnectivityCheck:          s.checkConnectivity,
		models.StepTypeFreeNetworkAddresses:       s.findFreeAddresses,
		models.StepTypeNtpSynchronizer:            s.synchronizeTime,
		models.StepTypeDomainResolution:           s.resolveDomains,
		models.StepTypeTangConnectivityCheck:      s.checkTang,
		models.StepTypeAPIVipConnectivityCheck:    s.checkAPIVip,
		models.StepTypeVerifyVips:                 s.verifyVips,
		models.StepTypeDhcpLeaseAllocate:          s.allocateLeases,
		models.StepTypeInstallationDiskSpeedCheck: s.checkDiskSpeed,
		models.StepTypeContainerImageAvailability: s.checkImages,
		models.StepTypeLogsGather:                 s.gatherLogs,
		models.StepTypeInstall:                    s.install,
		models.StepTypeStopInstallation:           s.stopInstallation,
		models.StepTypeUpgradeAgent:               s.upgradeAgent,
		models.StepTypeDownloadBootArtifacts:      s.downloadBootArtifacts,
		models.StepTypeRebootForReclaim:           s.rebootForReclaim,
	}
}

func (s *system) readInventory(_ context.Context, args []string) outcome {
	if err := decodeArguments("inventory", args, 1, nil); err != nil {
		return failed(exitFailed, err)
	}
	if !strfmt.IsUUID(args[0]) {
		return failed(exitFailed, fmt.Errorf("inventory requires the host's id, a UUID, not %q", args[0]))
	}
	return answered(s.machine.inventory())
}

func (s *system) checkConnectivity(_ context.Context, args []string) outcome {
	var request models.ConnectivityCheckParams
	if err := decodeArguments("connectivity check", args, 1, &request); err != nil {
		return failed(exitFailed, err)
	}
	report := models.ConnectivityReport{RemoteHosts: []*models.ConnectivityRemoteHost{}}
	for _, remote := range request {
		if remote.HostID != s.ref.host {
			report.RemoteHosts = append(report.RemoteHosts, s.checkRemote(remote))
		}
	}
	slices.SortFunc(report.RemoteHosts, func(a, b *models.ConnectivityRemoteHost) int {
		return strings.Compare(string(a.HostID), string(b.HostID))
	})
	return answered(report)
}

// checkRemote tries every address of a remote host from the only connected interface.
func (s *system) checkRemote(remote *models.ConnectivityCheckHost) *models.ConnectivityRemoteHost {
	reached := &models.ConnectivityRemoteHost{
		HostID: remote.HostID, L2Connectivity: []*models.L2Connectivity{}, L3Connectivity: []*models.L3Connectivity{},
		MtuReport: []*models.MtuReport{},
	}
	latency, slow := s.fault(HighLatency)
	loss, _ := s.fault(PacketLoss)
	roundTrip := 0.2 + float64(fingerprint(string(s.ref.host), string(remote.HostID))%300)/1000
	if slow {
		roundTrip = float64(latency.Duration) / float64(time.Millisecond)
	}
	outgoing := s.machine.nics[0].name
	for _, remoteNIC := range remote.Nics {
		for _, cidr := range remoteNIC.IPAddresses {
			address, _, _ := strings.Cut(cidr, "/")
			up := s.canReach(remote.HostID, address) && loss.Percent < 100
			reached.L2Connectivity = append(reached.L2Connectivity, &models.L2Connectivity{
				OutgoingIPAddress: s.machine.address.Addr().String(), OutgoingNic: outgoing, RemoteIPAddress: address,
				RemoteMac: remoteNIC.Mac.String(), Successful: up,
			})
			l3 := &models.L3Connectivity{OutgoingNic: outgoing, RemoteIPAddress: address, Successful: up,
				PacketLossPercentage: 100}
			if up {
				l3.AverageRTTMs, l3.PacketLossPercentage = roundTrip, loss.Percent
			}
			reached.L3Connectivity = append(reached.L3Connectivity, l3)
			reached.MtuReport = append(reached.MtuReport, &models.MtuReport{OutgoingNic: outgoing,
				RemoteIPAddress: address, MtuSuccessful: up})
		}
	}
	return reached
}

// canReach reports whether a remote address is reachable: it is in the host's network, and neither
// host is isolated.
func (s *system) canReach(remote strfmt.UUID, address string) bool {
	if _, isolated := s.fault(Isolated); isolated {
		return false
	}
	if other := s.group.otherHost(remote); other != nil {
		if _, isolated := other.fault(Isolated); isolated {
			return false
		}
	}
	ip, err := netip.ParseAddr(address)
	return err == nil && s.group.Network.Contains(ip)
}

// usedAddresses returns the addresses of the site that respond: the gateway and the group's hosts.
func (s *system) usedAddresses() map[netip.Addr]bool {
	usedAddresses := map[netip.Addr]bool{s.machine.gateway: true, s.machine.address.Addr(): true}
	s.group.mu.Lock()
	defer s.group.mu.Unlock()
	for _, h := range s.group.hosts {
		usedAddresses[h.machine.address.Addr()] = true
	}
	return usedAddresses
}

func (s *system) findFreeAddresses(_ context.Context, args []string) outcome {
	var request models.FreeAddressesRequest
	if err := decodeArguments("free addresses", args, 1, &request); err != nil {
		return failed(exitFailed, err)
	}
	found := models.FreeNetworksAddresses{}
	usedAddresses := s.usedAddresses()
	for _, network := range request {
		prefix, err := netip.ParsePrefix(network)
		if err != nil || prefix.Masked() != prefix || !prefix.Addr().Is4() {
			return failed(exitFailed, fmt.Errorf("%q is not an IPv4 network", network))
		}
		free := []strfmt.IPv4{}
		for address := prefix.Addr(); prefix.Contains(address) &&
			len(free) < freeAddressLimit; address = address.Next() {
			if !usedAddresses[address] {
				free = append(free, strfmt.IPv4(address.String()))
			}
		}
		found = append(found, &models.FreeNetworkAddresses{Network: network, FreeAddresses: free})
	}
	return answered(found)
}

func (s *system) synchronizeTime(_ context.Context, args []string) outcome {
	var request models.NtpSynchronizationRequest
	if err := decodeArguments("ntp synchronizer", args, 1, &request); err != nil {
		return failed(exitFailed, err)
	}
	names := strings.FieldsFunc(conv.Value(request.NtpSource), func(r rune) bool { return r == ',' || r == ' ' })
	if len(names) == 0 {
		names = []string{s.machine.gateway.String()}
	}
	_, unreachable := s.fault(NoNTP)
	response := models.NtpSynchronizationResponse{NtpSources: []*models.NtpSource{}}
	for i, name := range names {
		source := &models.NtpSource{SourceName: name, SourceState: models.SourceStateCombined}
		if i == 0 {
			source.SourceState = models.SourceStateSynced
		}
		if unreachable {
			source.SourceState = models.SourceStateUnreachable
		}
		response.NtpSources = append(response.NtpSources, source)
	}
	return answered(response)
}

// resolveDomains simulates the site's DNS. The DNS contains the names that a cluster needs and the
// names of hosts outside the cluster. It has no wildcard below the cluster's name.
func (s *system) resolveDomains(ctx context.Context, args []string) outcome {
	var request models.DomainResolutionRequest
	if err := decodeArguments("domain resolution", args, 1, &request); err != nil {
		return failed(exitFailed, err)
	}
	response := models.DomainResolutionResponse{Resolutions: []*models.DomainResolutionResponseDomain{}}
	for _, domain := range request.Domains {
		resolved := &models.DomainResolutionResponseDomain{
			DomainName: domain.DomainName, IPV4Addresses: []strfmt.IPv4{}, IPV6Addresses: []strfmt.IPv6{},
			Cnames: []string{},
		}
		for _, address := range s.addressesOf(ctx, conv.Value(domain.DomainName)) {
			if address.Is4() {
				resolved.IPV4Addresses = append(resolved.IPV4Addresses, strfmt.IPv4(address.String()))
			} else {
				resolved.IPV6Addresses = append(resolved.IPV6Addresses, strfmt.IPv6(address.String()))
			}
		}
		response.Resolutions = append(response.Resolutions, resolved)
	}
	return answered(response)
}

func (s *system) addressesOf(ctx context.Context, name string) []netip.Addr {
	if s.group.Resolve != nil {
		return s.group.Resolve(ctx, name)
	}
	address, err := netip.ParseAddr(s.resolve(name))
	if err != nil {
		return nil // the name does not exist
	}
	return []netip.Addr{address}
}

func (s *system) resolve(name string) string {
	if _, disabled := s.fault(NoDNS); disabled || strings.HasPrefix(name, "validateNoWildcardDNS.") {
		return ""
	}
	s.host.mu.Lock()
	defer s.host.mu.Unlock()
	router := s.machine.gateway.String() // the gateway is also the site's load balancer
	switch {
	case strings.HasPrefix(name, "api.") || strings.HasPrefix(name, "api-int."):
		return firstOf(s.vips[models.VipTypeAPI], router)
	case strings.Contains(name, ".apps."):
		return firstOf(s.vips[models.VipTypeIngress], router)
	}
	return router
}

func firstOf(texts ...string) string {
	for _, text := range texts {
		if text != "" {
			return text
		}
	}
	return ""
}

func (s *system) checkTang(_ context.Context, args []string) outcome {
	var request models.TangConnectivityRequest
	if err := decodeArguments("tang connectivity check", args, 1, &request); err != nil {
		return failed(exitFailed, err)
	}
	var servers []struct {
		URL        string `json:"url"`
		Thumbprint string `json:"thumbprint"`
	}
	if err := json.Unmarshal([]byte(conv.Value(request.TangServers)), &servers); err != nil {
		return failed(exitFailed, fmt.Errorf("the list of tang servers cannot be read: %w", err))
	}
	response := models.TangConnectivityResponse{IsSuccess: true, TangServerResponse: []*models.TangServerResponse{}}
	for _, server := range servers {
		if server.Thumbprint == "" || server.URL == "" {
			return failed(exitFailed, fmt.Errorf("the tang server %q has no URL or no thumbprint", server.URL))
		}
		response.TangServerResponse = append(response.TangServerResponse, &models.TangServerResponse{
			TangURL: server.URL + "/adv/" + server.Thumbprint, Payload: "eyJrZXlzIjpbXX0",
			Signatures: []*models.TangServerSignatures{{Protected: "eyJhbGciOiJFUzUxMiJ9",
				Signature: server.Thumbprint}},
		})
	}
	return answered(response)
}

// checkAPIVip returns the response of an existing cluster's machine config server. The site
// simulates only the address of that cluster.
func (s *system) checkAPIVip(_ context.Context, args []string) outcome {
	var request models.APIVipConnectivityRequest
	if err := decodeArguments("api vip connectivity check", args, 1, &request); err != nil {
		return failed(exitFailed, err)
	}
	return answered(models.APIVipConnectivityResponse{IsSuccess: true, URL: conv.Value(request.URL),
		Ignition: `{"ignition":{"version":"3.2.0"}}`})
}

func (s *system) verifyVips(_ context.Context, args []string) outcome {
	var request models.VerifyVipsRequest
	if err := decodeArguments("vip verifier", args, 1, &request); err != nil {
		return failed(exitFailed, err)
	}
	usedAddresses := s.usedAddresses()
	response := models.VerifyVipsResponse{}
	for _, vip := range request {
		verified := &models.VerifiedVip{Vip: vip.Vip, VipType: vip.VipType,
			Verification: models.NewVipVerification(models.VipVerificationSucceeded)}
		if address, err := netip.ParseAddr(string(vip.Vip)); err != nil || usedAddresses[address] {
			verified.Verification = models.NewVipVerification(models.VipVerificationFailed)
		}
		s.addVIP(vip)
		response = append(response, verified)
	}
	return answered(response)
}

func (s *system) addVIP(vip *models.VerifyVip) {
	s.host.mu.Lock()
	defer s.host.mu.Unlock()
	s.vips[vip.VipType] = string(vip.Vip)
}

// allocateLeases simulates the site's DHCP server. A MAC address always gets the same IP address,
// near the end of the network.
func (s *system) allocateLeases(_ context.Context, args []string) outcome {
	var request models.DhcpAllocationRequest
	if err := decodeArguments("dhcp leases", args, 1, &request); err != nil {
		return failed(exitFailed, err)
	}
	if !slices.ContainsFunc(s.machine.nics, func(n nic) bool { return n.name == *request.Interface && n.linked }) {
		return failed(exitFailed, fmt.Errorf("the host has no connected interface %q", *request.Interface))
	}
	api, ingress := s.lease(request.APIVipMac.String(), 1), s.lease(request.IngressVipMac.String(), 2)
	return answered(models.DhcpAllocationResponse{
		APIVipAddress: &api, IngressVipAddress: &ingress,
		APIVipLease: leaseText("api", api), IngressVipLease: leaseText("ingress", ingress),
	})
}

func (s *system) lease(mac string, fallback int) strfmt.IPv4 {
	end := s.group.Network.Masked().Addr().As4()
	size := uint64(1) << (32 - s.group.Network.Bits())
	offset := size - 2 - 2*(fingerprint(mac)%8) - uint64(fallback)%2
	value := uint64(end[0])<<24 | uint64(end[1])<<16 | uint64(end[2])<<8 | uint64(end[3])
	value += offset
	return strfmt.IPv4(netip.AddrFrom4([4]byte{byte(value >> 24), byte(value >> 16), byte(value >> 8), byte(value)}).
		String())
}

// leaseText returns a lease in the format of dhclient's lease file.
func leaseText(name string, address strfmt.IPv4) string {
	return fmt.Sprintf("lease {\n  interface %q;\n  fixed-address %s;\n}\n", name, address)
}

func (s *system) checkDiskSpeed(ctx context.Context, args []string) outcome {
	var request models.DiskSpeedCheckRequest
	if err := decodeArguments("disk performance", args, 2, &request); err != nil {
		return failed(exitFailed, err)
	}
	if _, err := strconv.ParseFloat(args[1], 64); err != nil {
		return failed(exitFailed, fmt.Errorf("disk performance requires a time-out in seconds, not %q", args[1]))
	}
	response := models.DiskSpeedCheckResponse{Path: *request.Path, IoSyncDuration: ordinarySync}
	if _, exists := s.machine.disk(*request.Path); !exists {
		return outcome{output: answered(models.DiskSpeedCheckResponse{Path: *request.Path}).output,
			errorText: "the disk does not exist on the host: " + *request.Path, code: exitFailed}
	}
	if _, slow := s.fault(SlowDisk); slow {
		response.IoSyncDuration = slowSyncMillis
	}
	if err := s.group.pause(ctx, 20*time.Second); err != nil {
		return failed(exitFailed, err)
	}
	return answered(response)
}

func (s *system) gatherLogs(ctx context.Context, args []string) outcome {
	var request models.LogsGatherCmdRequest
	if err := decodeArguments("logs gather", args, 1, &request); err != nil {
		return failed(exitFailed, err)
	}
	s.group.watch(*request.ClusterID, s.api) // later changes, such as a reset, are made by the operator
	if err := s.sendLogs(ctx, *request.ClusterID); err != nil {
		return failed(exitFailed, err)
	}
	return outcome{}
}

// sendLogs collects the host's logs, uploads them and reports the progress.
func (s *system) sendLogs(ctx context.Context, cluster strfmt.UUID) error {
	report := func(state models.LogsState) {
		if err := s.api.hostLogsProgress(ctx, s.ref, state); err != nil {
			s.group.log.Debug("Reporting the state of the logs failed.", "host", s.machine.hostname, "error", err)
		}
	}
	report(models.LogsStateRequested)
	if err := s.group.pause(ctx, logsTime); err != nil {
		return err
	}
	report(models.LogsStateCollecting)
	dir := "logs_host_" + string(s.ref.host) + "/"
	archive, err := archiveLogs(s.group.Clock.Now(), map[string]string{
		dir + "agent.logs": fmt.Sprintf("%s agent %s of %s\n", s.now().UTC().Format(time.RFC3339), s.version(),
			s.machine.hostname),
		dir + "installer.logs": fmt.Sprintf("%s installation of %s for cluster %s\n",
			s.now().UTC().Format(time.RFC3339), s.machine.hostname, cluster),
		dir + "mount.logs": "sr0 /run/media/iso\n",
	})
	if err != nil {
		return err
	}
	if err := s.group.retry(ctx, func() error { return s.api.uploadLogs(ctx, cluster, &s.ref, archive) }); err != nil {
		return err
	}
	report(models.LogsStateCompleted)
	return nil
}

// archiveLogs packs files into a tar.gz archive.
func archiveLogs(at time.Time, files map[string]string) ([]byte, error) {
	var packed bytes.Buffer
	compressed := gzip.NewWriter(&packed)
	archive := tar.NewWriter(compressed)
	for name, text := range files {
		header := &tar.Header{Name: name, Mode: 0o644, Size: int64(len(text)), ModTime: at, Typeflag: tar.TypeReg}
		if err := archive.WriteHeader(header); err != nil {
			return nil, fmt.Errorf("pack the logs: %w", err)
		}
		if _, err := archive.Write([]byte(text)); err != nil {
			return nil, fmt.Errorf("pack the logs: %w", err)
		}
	}
	if err := errors.Join(archive.Close(), compressed.Close()); err != nil {
		return nil, fmt.Errorf("pack the logs: %w", err)
	}
	return packed.Bytes(), nil
}

func (s *system) upgradeAgent(ctx context.Context, args []string) outcome {
	var request models.UpgradeAgentRequest
	if err := decodeArguments("upgrade agent", args, 1, &request); err != nil {
		return failed(exitFailed, err)
	}
	response := models.UpgradeAgentResponse{AgentImage: request.AgentImage, Result: models.UpgradeAgentResultSuccess}
	if _, err := s.pull(ctx, request.AgentImage); err != nil {
		response.Result = models.UpgradeAgentResultFailure
		return answered(response)
	}
	s.upgrade(request.AgentImage)
	s.setUpgraded(true)
	return answered(response)
}

func (s *system) downloadBootArtifacts(ctx context.Context, args []string) outcome {
	var request models.DownloadBootArtifactsRequest
	if err := decodeArguments("download boot artifacts", args, 1, &request); err != nil {
		return failed(exitFailed, err)
	}
	for _, address := range []*string{request.KernelURL, request.InitrdURL, request.RootfsURL} {
		if err := s.group.retry(ctx, func() error { return s.fetch(ctx, *address) }); err != nil {
			return failed(exitFailed, err)
		}
	}
	return outcome{output: "Successfully downloaded boot artifacts"}
}

// fetch downloads a file and discards it.
func (s *system) fetch(ctx context.Context, address string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return err
	}
	response, err := s.api.http.Do(request)
	if err != nil {
		return &RequestError{Operation: "download " + address, Err: err}
	}
	if response.StatusCode != http.StatusOK {
		err := errors.Join(fmt.Errorf("the response was %s", response.Status), response.Body.Close())
		return &RequestError{Operation: "download " + address, Status: response.StatusCode, Err: err}
	}
	_, err = io.Copy(io.Discard, response.Body)
	if err := errors.Join(err, response.Body.Close()); err != nil {
		return &RequestError{Operation: "download " + address, Err: err}
	}
	return nil
}

func (s *system) rebootForReclaim(_ context.Context, args []string) outcome {
	var request models.RebootForReclaimRequest
	if err := decodeArguments("reboot for reclaim", args, 1, &request); err != nil {
		return failed(exitFailed, err)
	}
	return outcome{}
}

// checkImages pulls each image and reports the result, like podman on the host with the
// registries.conf of the discovery config.
func (s *system) checkImages(ctx context.Context, args []string) outcome {
	var request models.ContainerImageAvailabilityRequest
	if err := decodeArguments("image availability", args, 1, &request); err != nil {
		return failed(exitFailed, err)
	}
	response := models.ContainerImageAvailabilityResponse{Images: []*models.ContainerImageAvailability{}}
	var code int64
	for _, image := range request.Images {
		checked := &models.ContainerImageAvailability{Name: image,
			Result: models.ContainerImageAvailabilityResultFailure}
		response.Images = append(response.Images, checked)
		size, err := s.pull(ctx, image)
		if err != nil {
			s.group.log.Warn("An image could not be pulled.", "host", s.machine.hostname, "image", image, "error", err)
			code = exitNoImage
			continue
		}
		seconds := max(float64(size)/pullRate, 0.1)
		checked.Result = models.ContainerImageAvailabilityResultSuccess
		checked.SizeBytes, checked.Time, checked.DownloadRate = float64(size), seconds, float64(size)/1e6/seconds
	}
	out := answered(response)
	out.code = code
	return out
}

// pull requests an image's manifest from the registries in the host's registries.conf, like podman.
// It returns the image's size in bytes. It does not download layers.
func (s *system) pull(ctx context.Context, image string) (int64, error) {
	if _, none := s.fault(NoImage); none {
		return 0, fmt.Errorf("image %s is not available (fault no-image)", image)
	}
	config := s.media.config
	registries, err := s.group.registries(config.RegistriesConf, config.TrustBundle)
	if err != nil {
		return 0, err
	}
	var credentials authn.Keychain
	if len(config.PullSecret) > 0 {
		if credentials, err = mirror.ParsePullSecret(string(config.PullSecret)); err != nil {
			return 0, err
		}
	}
	found, _, err := registries.Get(ctx, image, credentials)
	if err != nil {
		return 0, err
	}
	return imageSize(found), nil
}

// imageSize returns the total size of the objects in a manifest. For an object that is not an image
// manifest, it returns the object's own size.
func imageSize(found *remote.Descriptor) int64 {
	var manifest struct {
		Config struct{ Size int64 }
		Layers []struct{ Size int64 }
	}
	size := found.Size
	if err := json.Unmarshal(found.Manifest, &manifest); err != nil {
		return size
	}
	size += manifest.Config.Size
	for _, layer := range manifest.Layers {
		size += layer.Size
	}
	return size
}

// registries returns a client for registries with the given registries.conf and CAs.
func (c *HostGroup) registries(conf, bundle []byte) (*mirror.Client, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := string(conf) + "\x00" + string(bundle)
	if existing, ok := c.mirrors[key]; ok {
		return existing, nil
	}
	var sources mirror.Sources
	if len(conf) > 0 {
		sources.RegistriesConf = []mirror.Document{{Name: ignition.RegistriesConfPath, Data: conf}}
	}
	if len(bundle) > 0 {
		sources.CABundle = []mirror.Document{{Name: ignition.TrustBundlePath, Data: bundle}}
	}
	rules, err := mirror.Parse(sources)
	if err != nil {
		return nil, err
	}
	c.mirrors[key] = mirror.NewClient(rules, mirror.ClientOptions{Backoff: remote.Backoff{Steps: 1}, Egress: c.Egress})
	return c.mirrors[key], nil
}
