package engine

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/openshift/assisted-service/models"

	"landfall/ignition"
)

// People may override what the appliance writes: fields of the install-config, the ignition config
// of a host, and the arguments of the program that writes a host's disk. What can't be right is
// refused when it is given, and not when an installation needs it.

const (
	eventInstallConfigApplied = "install_config_applied"
	eventHostIgnitionApplied  = "host_discovery_ignition_config_applied"
	eventInstallerArgsApplied = "host_installer_args_applied"
)

// SetInstallConfigOverride replaces what people override in a cluster's install-config: a JSON
// object that is laid over what the appliance writes, or "" for nothing. It is refused with kind
// Invalid when the result would be no install-config, and when the install-config was handed to the
// installer already.
func (e *Engine) SetInstallConfigOverride(ctx context.Context, id, override string) error {
	if _, err := e.clusterRow(id); err != nil {
		return err
	}
	plan, err := e.planInstallation(id)
	if err != nil {
		return err
	}
	plan.row.API.InstallConfigOverrides = override
	if _, err := plan.overriddenInstallConfig(); err != nil {
		return err
	}
	return e.update(ctx, func(c *change) error {
		row, err := c.cluster(id)
		if err != nil {
			return err
		}
		if slices.Contains([]string{clusterPreparing, clusterInstalling, clusterUserAction, clusterFinalizing,
			clusterInstalled}, *row.API.Status) {
			return invalid("Cluster %s is %s; its install-config was handed to the installer already.", row.API.Name,
				*row.API.Status)
		}
		row.API.InstallConfigOverrides = override
		c.saveCluster(row)
		c.settleCluster(id)
		return errors.Join(
			c.setUsage(row, usageInstallConfig, override != ""),
			c.clusterEvent(row, eventInstallConfigApplied, models.EventSeverityInfo,
				"Cluster %s: the install-config was overridden.", row.API.Name),
		)
	})
}

// overriddenInstallConfig is the install-config of the planned installation with what people
// override in it.
func (p *plan) overriddenInstallConfig() ([]byte, error) {
	written := p.installConfig()
	override := p.row.API.InstallConfigOverrides
	if override == "" {
		return written, nil
	}
	var base map[string]any
	if err := json.Unmarshal(written, &base); err != nil {
		return nil, err
	}
	over, err := parseOverride(override)
	if err != nil {
		return nil, err
	}
	merged, _ := mergeOverride(base, over).(map[string]any)
	if bundle, _ := merged["additionalTrustBundle"].(string); bundle != "" {
		if checkCertificates(bundle) != nil {
			return nil, invalid("The install-config's additionalTrustBundle is no list of certificates in PEM form.")
		}
	}
	text, err := json.MarshalIndent(merged, "", "  ")
	return append(text, '\n'), err
}

// parseOverride reads an override and refuses what an install-config does not have.
func parseOverride(text string) (map[string]any, error) {
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	var over map[string]any
	if err := decoder.Decode(&over); err != nil {
		return nil, invalid("The install-config override is no JSON object, such as {\"fips\": true}.")
	}
	if over == nil {
		return nil, invalid("The install-config override is null; it takes a JSON object, such as {\"fips\": true}.")
	}
	var more any
	if err := decoder.Decode(&more); !errors.Is(err, io.EOF) {
		return nil, invalid("The install-config override goes on after its JSON object ends; give one object only.")
	}
	return over, installConfigFields().check("", over)
}

// mergeOverride lays one JSON value over another: objects by field, lists of objects by place,
// everything else as a whole. A null takes a field away.
func mergeOverride(base, over any) any {
	switch over := over.(type) {
	case map[string]any:
		held, _ := base.(map[string]any)
		merged := make(map[string]any, len(held)+len(over))
		for name, value := range held {
			merged[name] = value
		}
		for name, value := range over {
			if value == nil {
				delete(merged, name)
				continue
			}
			merged[name] = mergeOverride(merged[name], value)
		}
		return merged
	case []any:
		held, _ := base.([]any)
		merged := make([]any, len(over))
		for i, value := range over {
			if _, object := value.(map[string]any); object && i < len(held) {
				value = mergeOverride(held[i], value)
			}
			merged[i] = value
		}
		return merged
	}
	return over
}

// shape is what a field of the install-config takes.
type shape struct {
	kind   string           // how the kind of value is called in a sentence
	fields map[string]shape // of an object; nil for any
	each   *shape           // of a list
	fits   func(any) bool   // of a single value
}

func (s shape) check(path string, value any) error {
	if value == nil {
		return nil
	}
	if s.fits != nil {
		if !s.fits(value) {
			return invalid("The install-config override's %s takes %s.", path, s.kind)
		}
		return nil
	}
	if s.each != nil {
		items, ok := value.([]any)
		if !ok {
			return invalid("The install-config override's %s takes a list.", path)
		}
		for i, item := range items {
			if item == nil {
				return invalid("The install-config override's %s[%d] is null; leave it out of its list.", path, i)
			}
			if err := s.each.check(path+"["+strconv.Itoa(i)+"]", item); err != nil {
				return err
			}
		}
		return nil
	}
	object, ok := value.(map[string]any)
	if !ok {
		return invalid("The install-config override's %s takes an object.", path)
	}
	for name, inner := range object {
		at := strings.TrimPrefix(path+"."+name, ".")
		field, known := s.fields[name]
		if !known && s.fields != nil {
			return invalid("The install-config override has the field %q, which an install-config does not have "+
				"here; leave it out or correct its name.", at)
		}
		if known {
			if err := field.check(at, inner); err != nil {
				return err
			}
		}
	}
	return nil
}

// installConfigFields are the fields of an install-config that can be overridden: those that the
// Assisted Installer knows (internal/installcfg/installcfg.go).
func installConfigFields() shape {
	is := func(kind string, fits func(any) bool) shape { return shape{kind: kind, fits: fits} }
	text := is("a string", func(v any) bool { _, ok := v.(string); return ok })
	flag := is("true or false", func(v any) bool { _, ok := v.(bool); return ok })
	number := is("a whole number from 0", func(v any) bool {
		n, ok := v.(json.Number)
		if !ok {
			return false
		}
		whole, err := n.Int64()
		return err == nil && whole >= 0
	})
	network := is("a network in CIDR notation, such as 192.168.0.0/24", func(v any) bool {
		cidr, _ := v.(string)
		_, err := netip.ParsePrefix(cidr)
		return err == nil
	})
	address := is("an IP address", func(v any) bool {
		ip, _ := v.(string)
		_, err := netip.ParseAddr(ip)
		return err == nil
	})
	object := func(fields map[string]shape) shape { return shape{fields: fields} }
	list := func(each shape) shape { return shape{each: &each} }

	pool := map[string]shape{"hyperthreading": text, "name": text, "replicas": number}
	fencing := object(map[string]shape{"credentials": list(object(map[string]shape{
		"hostname": text, "macAddress": text, "address": text, "username": text, "password": text,
		"certificateVerification": text,
	}))})
	balancer := object(map[string]shape{"type": text})
	sources := list(object(map[string]shape{"mirrors": list(text), "source": text, "sourcePolicy": text}))
	bareMetal := object(map[string]shape{
		"provisioningNetwork": text, "apiVIPs": list(address), "apiVIP": address, "ingressVIPs": list(address),
		"ingressVIP": address,
		"hosts": list(object(map[string]shape{
			"name": text, "role": text, "bootMACAddress": text, "bootMode": text, "hardwareProfile": text,
			"bmc": object(map[string]shape{"username": text, "password": text, "address": text,
				"disableCertificateVerification": flag}),
		})),
		"clusterOSImage": text, "clusterProvisioningIP": address, "provisioningNetworkInterface": text,
		"provisioningNetworkCIDR": network,
		"provisioningDHCPRange":   text, "additionalNTPServers": list(text), "loadBalancer": balancer,
	})
	return object(map[string]shape{
		"apiVersion": text, "baseDomain": text, "metadata": object(map[string]shape{"name": text}),
		"proxy": object(map[string]shape{"httpProxy": text, "httpsProxy": text, "noProxy": text}),
		"networking": object(map[string]shape{
			"networkType":    text,
			"clusterNetwork": list(object(map[string]shape{"cidr": network, "hostPrefix": number})),
			"machineNetwork": list(object(map[string]shape{"cidr": network})),
			"serviceNetwork": list(network),
		}),
		"compute": list(object(pool)),
		"controlPlane": object(map[string]shape{"hyperthreading": text, "name": text, "replicas": number,
			"fencing": fencing}),
		"arbiter": object(pool),
		"platform": object(map[string]shape{
			"baremetal": bareMetal, "none": object(map[string]shape{}), "vsphere": object(nil), "nutanix": object(nil),
			"external": object(map[string]shape{"platformName": text, "cloudControllerManager": text}),
		}),
		"bootstrapInPlace": object(map[string]shape{"installationDisk": text}),
		"fips":             flag, "cpuPartitioningMode": text, "pullSecret": text, "sshKey": text,
		"additionalTrustBundle": text, "additionalTrustBundlePolicy": text,
		"imageContentSources": sources, "imageDigestSources": sources,
		"capabilities": object(map[string]shape{"baselineCapabilitySet": text,
			"additionalEnabledCapabilities": list(text)}),
		"featureSet": text, "featureGates": list(text), "osImageStream": text,
	})
}

// SetHostIgnition replaces what people override in the ignition config that a host is installed
// with, an ignition config itself; "" takes it away.
func (e *Engine) SetHostIgnition(ctx context.Context, infraEnvID, hostID, override string) error {
	if override != "" {
		if err := ignition.Validate([]byte(override)); err != nil {
			return &Error{Kind: Invalid, Reason: sentence(err), Err: err}
		}
	}
	return e.update(ctx, func(c *change) error {
		h, err := c.hostIn(infraEnvID, hostID)
		if err != nil {
			return err
		}
		if slices.Contains(slices.Concat(duringInstall, []string{preparing, prepared}), *h.API.Status) {
			return invalid("Host %s is %s; its ignition config was made already.", c.hostName(h), *h.API.Status)
		}
		h.API.IgnitionConfigOverrides = override
		c.saveHost(h)
		if err := c.noteHostUsage(h, usageIgnitionOverride,
			func(other *hostRecord) bool { return other.API.IgnitionConfigOverrides != "" }); err != nil {
			return err
		}
		return c.hostEvent(h, eventHostIgnitionApplied, models.EventSeverityInfo,
			"Host %s: its ignition config was overridden.", c.hostName(h))
	})
}

// noteHostUsage notes in a host's cluster whether any of its hosts uses a feature.
func (c *change) noteHostUsage(h *hostRecord, name string, uses func(*hostRecord) bool) error {
	if h.API.ClusterID == nil {
		return nil
	}
	id := h.API.ClusterID.String()
	row, err := c.cluster(id)
	if err != nil {
		return err
	}
	hosts, err := c.hostsOf(id)
	if err != nil {
		return err
	}
	return c.setUsage(row, name, slices.ContainsFunc(hosts, uses))
}

// HostIgnitionText returns a host's own ignition config for its installation; see
// [Engine.HostIgnition].
func (e *Engine) HostIgnitionText(infraEnvID, hostID string) (string, error) {
	file, _, err := e.HostIgnition(infraEnvID, hostID)
	if err != nil {
		return "", err
	}
	var text bytes.Buffer
	_, err = text.ReadFrom(file)
	return text.String(), errors.Join(err, file.Close())
}

// installerFlags are the arguments of coreos-installer that people may give (the Assisted
// Installer's list).
func installerFlags() []string {
	return []string{"--append-karg", "--delete-karg", "-n", "--copy-network", "--network-dir", "--save-partlabel",
		"--save-partindex", "--image-url", "--image-file"}
}

// checkInstallerArgs refuses arguments that coreos-installer is not to get, and values that a shell
// could take apart.
func checkInstallerArgs(args []string) error {
	for _, arg := range args {
		if strings.HasPrefix(arg, "-") {
			if !slices.Contains(installerFlags(), arg) {
				return invalid("The installer argument %q is not allowed; there are %s, each value an argument of "+
					"its own.", arg, strings.Join(installerFlags(), ", "))
			}
			continue
		}
		if arg == "" {
			return invalid("An installer argument is empty; leave it out.")
		}
		if odd := strings.IndexFunc(arg, func(r rune) bool { return !allowedInValue(r) }); odd >= 0 {
			return invalid("The installer argument %q has the character %q, which is not allowed there.", arg,
				[]rune(arg[odd:])[0])
		}
	}
	return nil
}

// allowedInValue tells whether a value of an installer argument may have a character.
func allowedInValue(r rune) bool {
	switch {
	case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '+' <= r && r <= '=': // with the digits and , - . / : ; <
		return true
	}
	return strings.ContainsRune(`@!#$%*()_"'{}[]`, r)
}

// SetInstallerArgs replaces the arguments that coreos-installer gets on a host. None take them
// away.
func (e *Engine) SetInstallerArgs(ctx context.Context, infraEnvID, hostID string, args []string) (*models.Host, error) {
	if err := checkInstallerArgs(args); err != nil {
		return nil, err
	}
	text := []byte{}
	if len(args) > 0 {
		var err error
		if text, err = json.Marshal(args); err != nil {
			return nil, fmt.Errorf("write the installer arguments: %w", err)
		}
	}
	return e.changeHost(ctx, infraEnvID, hostID, func(c *change) error {
		h, err := c.hostIn(infraEnvID, hostID)
		if err != nil {
			return err
		}
		if slices.Contains(slices.Concat(duringInstall, []string{preparing, prepared, installed, added}),
			*h.API.Status) {
			return conflict("Host %s is %s; its installer has its arguments already.", c.hostName(h), *h.API.Status)
		}
		h.API.InstallerArgs = string(text)
		c.saveHost(h)
		return c.hostEvent(h, eventInstallerArgsApplied, models.EventSeverityInfo,
			"Host %s: the installer's arguments were set.", c.hostName(h))
	})
}
