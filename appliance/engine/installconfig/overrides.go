package installconfig

import (
	"encoding/json"
	"errors"
	"io"
	"net/netip"
	"strconv"
	"strings"
)

// InstallConfig renders the install-config with the users' overrides. It fails with kind Invalid if
// the overrides are invalid.
func (in *Installation) InstallConfig() ([]byte, error) {
	written := in.plainInstallConfig()
	override := in.Cluster.InstallConfigOverrides
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
		if CheckIngressCA(bundle) != nil {
			return nil, invalid("The install-config's additionalTrustBundle is no list of certificates in PEM form.")
		}
	}
	text, err := json.MarshalIndent(merged, "", "  ")
	return append(text, '\n'), err
}

// parseOverride parses an override. It rejects fields and values that an install-config does not
// support.
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
		return nil, invalid("The install-config override has text after its JSON object; give one object only.")
	}
	return over, installConfigSchema().check("", over)
}

// mergeOverride merges an override into a JSON value. Objects are merged by field, and lists of
// objects by index. Other values are replaced. A null removes a field.
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

// schema describes the valid values of a field of the install-config.
type schema struct {
	kind   string            // describes the valid values
	fields map[string]schema // fields of an object; nil accepts all fields
	each   *schema           // schema of the items of a list
	fits   func(any) bool    // checks a single value
}

func (s schema) check(path string, value any) error {
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
				return invalid("The install-config override's %s[%d] is null; remove the null from its list.", path, i)
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

// installConfigSchema returns the fields of an install-config that users can override, as in the
// Assisted Installer (internal/installcfg/installcfg.go).
func installConfigSchema() schema {
	is := func(kind string, fits func(any) bool) schema { return schema{kind: kind, fits: fits} }
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
	object := func(fields map[string]schema) schema { return schema{fields: fields} }
	list := func(each schema) schema { return schema{each: &each} }

	pool := map[string]schema{"hyperthreading": text, "name": text, "replicas": number}
	fencing := object(map[string]schema{"credentials": list(object(map[string]schema{
		"hostname": text, "macAddress": text, "address": text, "username": text, "password": text,
		"certificateVerification": text,
	}))})
	balancer := object(map[string]schema{"type": text})
	sources := list(object(map[string]schema{"mirrors": list(text), "source": text, "sourcePolicy": text}))
	bareMetal := object(map[string]schema{
		"provisioningNetwork": text, "apiVIPs": list(address), "apiVIP": address, "ingressVIPs": list(address),
		"ingressVIP": address,
		"hosts": list(object(map[string]schema{
			"name": text, "role": text, "bootMACAddress": text, "bootMode": text, "hardwareProfile": text,
			"bmc": object(map[string]schema{"username": text, "password": text, "address": text,
				"disableCertificateVerification": flag}),
		})),
		"clusterOSImage": text, "clusterProvisioningIP": address, "provisioningNetworkInterface": text,
		"provisioningNetworkCIDR": network,
		"provisioningDHCPRange":   text, "additionalNTPServers": list(text), "loadBalancer": balancer,
	})
	return object(map[string]schema{
		"apiVersion": text, "baseDomain": text, "metadata": object(map[string]schema{"name": text}),
		"proxy": object(map[string]schema{"httpProxy": text, "httpsProxy": text, "noProxy": text}),
		"networking": object(map[string]schema{
			"networkType":    text,
			"clusterNetwork": list(object(map[string]schema{"cidr": network, "hostPrefix": number})),
			"machineNetwork": list(object(map[string]schema{"cidr": network})),
			"serviceNetwork": list(network),
		}),
		"compute": list(object(pool)),
		"controlPlane": object(map[string]schema{"hyperthreading": text, "name": text, "replicas": number,
			"fencing": fencing}),
		"arbiter": object(pool),
		"platform": object(map[string]schema{
			"baremetal": bareMetal, "none": object(map[string]schema{}), "vsphere": object(nil), "nutanix": object(nil),
			"external": object(map[string]schema{"platformName": text, "cloudControllerManager": text}),
		}),
		"bootstrapInPlace": object(map[string]schema{"installationDisk": text}),
		"fips":             flag, "cpuPartitioningMode": text, "pullSecret": text, "sshKey": text,
		"additionalTrustBundle": text, "additionalTrustBundlePolicy": text,
		"imageContentSources": sources, "imageDigestSources": sources,
		"capabilities": object(map[string]schema{"baselineCapabilitySet": text,
			"additionalEnabledCapabilities": list(text)}),
		"featureSet": text, "featureGates": list(text), "osImageStream": text,
	})
}
