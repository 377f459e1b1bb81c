package hosts

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/openshift/assisted-service/models"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/yaml"

	"landfall/appliance/fault"
	"landfall/appliance/kube/objects"
	"landfall/ignition"
	"landfall/store"

	"landfall/appliance/kube/objects/agentinstall"
)

// networks holds the static networks of an infra-env, and the names of their NMStateConfigs in the
// same order.
type networks struct {
	hosts []*models.HostStaticNetworkConfig
	from  []string // <namespace>/<name>
}

// invalidError is an error in a user's object. The reconcile is not retried before the object
// changes.
type invalidError struct{ reason string }

func (e *invalidError) Error() string { return e.reason }

func invalid(format string, args ...any) error {
	return &invalidError{fmt.Sprintf(format, args...)}
}

// withKnownText puts the Assisted Installer's text before an error in an Ignition config or in a
// network description. Scripts search for it in conditions.
func withKnownText(err error) error {
	text := ""
	if _, ok := errors.AsType[*ignition.ConfigError](err); ok {
		text = "error parsing ignition: config is not valid, error report: "
	} else if f, ok := errors.AsType[*ignition.NetworkFault](err); ok && f.Line > 0 {
		text = "Invalid YAML: "
	} else {
		return err
	}
	return &fault.Error{Kind: fault.KindOf(err), Reason: text + err.Error(), Err: err}
}

// selectsNetworks returns the selector of an InfraEnv's NMStateConfigs. An empty selector selects
// none.
func selectsNetworks(selector *metav1.LabelSelector) (labels.Selector, error) {
	if len(selector.MatchLabels)+len(selector.MatchExpressions) == 0 {
		return labels.Nothing(), nil
	}
	selects, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		return nil, invalid("The nmStateConfigLabelSelector can't be read: %v.", err)
	}
	return selects, nil
}

// networksOf collects the networks of the NMStateConfigs that an InfraEnv selects in its
// namespace, ordered by name.
func (h *Controllers) networksOf(tx *store.Tx, namespace string, selector *metav1.LabelSelector) (*networks, error) {
	selects, err := selectsNetworks(selector)
	if err != nil {
		return nil, err
	}
	found := &networks{}
	if selects.Empty() || selects.String() == labels.Nothing().String() {
		return found, nil
	}
	owners := map[string]string{} // by MAC address in lower case
	err = h.Objects.Each(tx, objects.NMStateConfigs, namespace, func(u *unstructured.Unstructured) error {
		if !selects.Matches(labels.Set(u.GetLabels())) || u.GetDeletionTimestamp() != nil {
			return nil
		}
		return found.add(u, owners)
	})
	return found, err
}

func (n *networks) add(u *unstructured.Unstructured, owners map[string]string) error {
	var config agentinstall.NMStateConfig
	if err := objects.Into(u, &config); err != nil {
		return invalid("NMStateConfig %s/%s can't be read: %v.", u.GetNamespace(), u.GetName(), err)
	}
	name, host := config.Namespace+"/"+config.Name, &models.HostStaticNetworkConfig{}
	for _, nic := range config.Spec.Interfaces {
		mac := strings.ToLower(nic.MACAddress)
		if other, taken := owners[mac]; taken && other != name {
			return invalid("NMStateConfigs %s and %s both name the MAC address %s; a machine gets its network "+
				"from only one of them, so remove the address from the other.", other, name, mac)
		}
		owners[mac] = name
		host.MacInterfaceMap = append(host.MacInterfaceMap, &models.MacInterfaceMapItems0{MacAddress: nic.MACAddress,
			LogicalNicName: nic.Name})
	}
	text, err := yaml.Marshal(config.Spec.Config)
	if err != nil {
		return fmt.Errorf("write the network of NMStateConfig %s: %w", name, err)
	}
	host.NetworkYaml = string(text)
	n.hosts, n.from = append(n.hosts, host), append(n.from, name)
	return nil
}

var hostNumber = regexp.MustCompile(`\bhost (\d+)\b`)

// named replaces the host numbers in an error text with the names of their NMStateConfigs.
func (n *networks) named(failure string) string {
	return hostNumber.ReplaceAllStringFunc(failure, func(match string) string {
		number, err := strconv.Atoi(match[len("host "):])
		if err != nil || number >= len(n.from) {
			return match
		}
		return "NMStateConfig " + n.from[number]
	})
}
