//go:build networkmanager

package networkmanagertest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"landfall/ignition"
)

var modes = []string{"balance-rr", "active-backup", "balance-xor", "broadcast", "802.3ad", "balance-tlb", "balance-alb"}

// Each bond option with its extreme values and the options that it requires.
var bondOptions = map[string][]string{
	"ad_actor_sys_prio": {"1", "65535"}, "ad_actor_system": {"00:11:22:33:44:55"},
	"ad_select":        {"stable", "bandwidth", "count"},
	"ad_user_port_key": {"0", "1023"}, "all_slaves_active": {"0", "1"}, "arp_all_targets": {"any", "all"},
	"arp_interval": {"1", "2147483647"}, "arp_ip_target": {"192.0.2.1", "192.0.2.1,192.0.2.2"},
	"arp_validate": {"none", "active", "backup", "all", "filter", "filter_active", "filter_backup"},
	"downdelay":    {"0", "2147483647"}, "fail_over_mac": {"none", "active", "follow"}, "lacp_rate": {"slow", "fast"},
	"lp_interval": {"1", "2147483647"},
	"miimon":      {"0", "2147483647"}, "min_links": {"0", "2147483647"}, "num_grat_arp": {"0", "255"},
	"num_unsol_na":      {"0", "255"},
	"packets_per_slave": {"0", "65535"}, "primary": {"eno1"}, "primary_reselect": {"always", "better", "failure"},
	"resend_igmp":    {"0", "255"},
	"tlb_dynamic_lb": {"0", "1"}, "updelay": {"0", "2147483647"}, "use_carrier": {"0", "1"},
	"xmit_hash_policy": {"layer2", "layer2+3", "layer3+4", "encap2+3", "encap3+4", "vlan+srcmac"},
}

// needed maps an option to another option that it requires.
var needed = map[string]string{
	"arp_interval": "arp_ip_target: 192.0.2.1", "arp_ip_target": "arp_interval: 100", "updelay": "miimon: 100",
	"downdelay": "miimon: 100",
}

// The test tries every option in every mode. NetworkManager must accept all options that we write,
// and reject or ignore all options that we reject.
func TestBondOptions_matchNetworkManager(t *testing.T) {
	type try struct{ mode, option, value string }
	var tries []try
	for _, mode := range modes {
		for option, values := range bondOptions {
			for _, value := range values {
				tries = append(tries, try{mode, option, value})
			}
		}
	}
	accepted := make([]bool, len(tries))
	all(t, len(tries), func(i int) error {
		try := tries[i]
		options := fmt.Sprintf("%s: %q", try.option, try.value)
		if more := needed[try.option]; more != "" {
			options += ", " + more
		}
		files, err := keyfiles(ignition.HostNetwork{
			YAML: fmt.Sprintf("interfaces:\n- name: bond0\n  type: bond\n  link-aggregation: {mode: %s, port: "+
				"[eno1], options: {%s}}\n  ipv4: {enabled: true, dhcp: true}\n", try.mode, options),
			// The NIC has its kernel name; the second NIC identifies the host.
			Interfaces: []ignition.NetworkInterface{{MAC: "52:54:00:00:00:01", Name: "eno1"}},
		})
		if err == nil {
			accepted[i] = true
			got, err := understood(files["bond0"])
			if err != nil {
				return fmt.Errorf("%v: NetworkManager rejects the keyfile: %w", try, err)
			}
			if d := difference(read(files["bond0"]).written(), got); d != "" {
				return fmt.Errorf("%v: NetworkManager ignores a setting of the keyfile:\n%s", try, d)
			}
			return nil
		}
		plain := fmt.Sprintf(
			"[connection]\nid=b\nuuid=2b34142b-bd89-5667-acf5-d83a8f524dbb\ntype=bond\ninterface-name=b\nautoconnect-priority=1\n[bond]\nmode=%s\n%s\n[ipv4]\nmethod=disabled\n[ipv6]\nmethod=disabled\n",
			try.mode, strings.NewReplacer(": ", "=", ", ", "\n", `"`, "").Replace(options))
		if got, nmcliErr := understood([]byte(plain)); nmcliErr == nil && got["bond."+try.option] == try.value {
			return fmt.Errorf("%v: rejected, but NetworkManager accepts the option: %w", try, err)
		}
		return nil
	})
	count := 0
	for _, ok := range accepted {
		if ok {
			count++
		}
	}
	require.Greater(t, count, len(tries)/2)
}
