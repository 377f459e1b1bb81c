package ignition

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// secretNetwork is a description with secrets in all places where nmstate has some.
const secretNetwork = `interfaces:
- name: eth1 # the former password was Planted-0
  type: ethernet
  802.1x: {identity: host-1, eap-methods: [tls], private-key: /etc/pki/key.pem,
    private-key-password: "Planted-1", password: 'Planted-2'}
- name: macsec0
  type: macsec
  macsec: {base-iface: eth1, mka-cak: Planted-3, mka-ckn: public}
- name: vpn
  type: ipsec
  libreswan:
    psk: |
      Planted-4
    private-key: "data:;base64,UGxhbnRlZC01"
    "p\x61ssword": Planted-6
    PASSWORD: {a: [Planted-7, 12345678]}
  description: the password is in the safe
`

func TestNetworkSecrets_hidden(t *testing.T) {
	hidden := HideNetworkSecrets(secretNetwork)
	for _, secret := range []string{"Planted", "UGxhbnRlZC01", "12345678"} {
		require.NotContains(t, hidden, secret)
	}
	require.Equal(t, 8, strings.Count(hidden, HiddenSecret))
	for _, shown := range []string{"/etc/pki/key.pem", "host-1", "mka-ckn: public", "the password is in the safe"} {
		require.Contains(t, hidden, shown)
	}
	require.Equal(t, hidden, HideNetworkSecrets(hidden))
	for name, text := range map[string]string{
		"no secret":         "interfaces: # all\n- {name: eth0}\n",
		"an empty password": "interfaces: [{name: eth0, 802.1x: {password: \"\"}}]\n",
		"the path of a key": "interfaces: [{name: eth0, 802.1x: {private-key: 'file:///key'}}]\n",
	} {
		require.Equal(t, text, HideNetworkSecrets(text), name)
	}
	for name, text := range map[string]string{
		"invalid YAML":       "password: [Planted",
		"two documents":      "password: Planted\n---\npassword: Planted\n",
		"an anchor":          "interfaces: [{802.1x: &a {password: Planted}}, {802.1x: *a}]\n",
		"a merge key":        "interfaces: [{802.1x: &a {password: Planted}}, {802.1x: {<<: *a}}]\n",
		"a commented secret": "interfaces:\n- name: eth0\n# password: Planted\n",
	} {
		require.NotContains(t, HideNetworkSecrets(text), "Planted", name)
	}
	require.Len(t, NetworkSecrets(secretNetwork), 8)
}

func TestNetworkSecrets_restored(t *testing.T) {
	hidden := HideNetworkSecrets(secretNetwork)
	restored, err := RestoreNetworkSecrets(hidden, secretNetwork)
	require.NoError(t, err)
	require.Equal(t, secretNetwork, restored, "the sent text is the hidden one")

	edited := strings.Replace(hidden, "identity: host-1", "identity: host-2", 1)
	restored, err = RestoreNetworkSecrets(edited, secretNetwork)
	require.NoError(t, err)
	require.Contains(t, restored, "host-2")
	require.Equal(t, NetworkSecrets(secretNetwork), NetworkSecrets(restored))

	const stored = "interfaces: [{name: eth0, 802.1x: {password: 0123}}, {name: eth1, 802.1x: {password: other}}]\n"
	for name, c := range map[string]struct{ sent, want string }{
		"other order": {"interfaces:\n- {name: eth1, 802.1x: {password: '" + HiddenSecret + "'}}\n",
			"interfaces:\n  - {name: eth1, 802.1x: {password: other}}\n"},
		"a number": {"interfaces:\n- {name: eth0, 802.1x: {password: '" + HiddenSecret + "'}}\n",
			"interfaces:\n  - {name: eth0, 802.1x: {password: 0123}}\n"},
		"a folded text": {"interfaces:\n- name: eth1\n  802.1x:\n    password: 'hidden: only administrators\n      " +
			"can read it'\n", "interfaces:\n  - name: eth1\n    802.1x:\n      password: other\n"},
		"a new secret": {"interfaces: [{name: eth1, 802.1x: {password: new}}]",
			"interfaces: [{name: eth1, 802.1x: {password: new}}]"},
		"an alias shows nothing": {"interfaces: [{name: eth1, 802.1x: {password: &a '" + HiddenSecret +
			"'}, description: *a}]\n", "interfaces: [{name: eth1, 802.1x: {password: other}, description: '" +
			HiddenSecret + "'}]\n"},
	} {
		restored, err := RestoreNetworkSecrets(c.sent, stored)
		require.NoError(t, err, name)
		require.Equal(t, c.want, restored, name)
	}
}

func TestNetworkSecrets_storedAreKnownWithoutThem(t *testing.T) {
	const edited = "# mine\ninterfaces: [ {name: eth1,   802.1x: {password: \"" + HiddenSecret + "\"}, mtu: 9000} ]\n"
	for name, text := range map[string]string{
		"new secrets":         secretNetwork,
		"hidden secrets":      HideNetworkSecrets(secretNetwork),
		"some hidden secrets": strings.Replace(HideNetworkSecrets(secretNetwork), HiddenSecret, "new", 1),
		"an own format":       edited,
		"a comment":           "interfaces: [] # no password\n",
		"no secrets":          "interfaces:  [{name: eth0}]\n",
	} {
		stored, err := RestoreNetworkSecrets(text, secretNetwork)
		require.NoError(t, err, name)
		hidden, ok := StoredNetworkWithoutSecrets(text)
		if !ok {
			hidden = text
		}
		require.Equal(t, HideNetworkSecrets(stored), hidden, name)
		require.Equal(t, name != "no secrets", ok, name)
	}
	_, ok := StoredNetworkWithoutSecrets("password: [Planted")
	require.False(t, ok)
}

func TestNetworkSecrets_unknownAreRejected(t *testing.T) {
	const stored = "interfaces: [{name: eth0, 802.1x: {password: stored}}]\n"
	for name, sent := range map[string]string{
		"another interface": "interfaces:\n- name: eth9\n  802.1x: {password: '" + HiddenSecret + "'}\n",
		"another field":     "interfaces:\n- name: eth0\n  802.1x: {private-key-password: '" + HiddenSecret + "'}\n",
	} {
		_, err := RestoreNetworkSecrets(sent, stored)
		var missing *NetworkFault
		require.ErrorAs(t, err, &missing, name)
		require.Equal(t, 3, missing.Line)
		require.Contains(t, missing.Sentence(),
			"(line 3) has a text that stands for a hidden value; give the value itself")
	}
}
