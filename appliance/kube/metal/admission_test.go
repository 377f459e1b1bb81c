package metal_test

import (
	"encoding/json"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"

	"landfall/appliance/kube/metal"
)

// admitted returns the error of admission for a host that is changed by a JSON merge patch. Unless
// old is "", the request is an update of the host that is changed by old.
func admitted(t *testing.T, patch, old string) error {
	t.Helper()
	object := func(patch string) runtime.Object {
		var host map[string]any
		require.NoError(t, json.Unmarshal([]byte(`{"apiVersion":"metal3.io/v1alpha1","kind":"BareMetalHost","metadata":{"name":"node0","namespace":"site"},
			"spec":{"online":true,"bootMACAddress":"52:54:00:aa:bb:01","bmc":{"address":"redfish-virtualmedia://192.0.2.7/redfish/v1/Systems/1","credentialsName":"bmc"}}}`), &host))
		var change map[string]any
		require.NoError(t, json.Unmarshal([]byte(patch), &change))
		merge(host, change)
		return &unstructured.Unstructured{Object: host}
	}
	operation, before := admission.Create, runtime.Object(nil)
	if old != "" {
		operation, before = admission.Update, object(old)
	}
	attributes := admission.NewAttributesRecord(object(patch), before, schema.GroupVersionKind{Group: "metal3.io",
		Version: "v1alpha1", Kind: "BareMetalHost"},
		"site", "node0", schema.GroupVersionResource{Group: "metal3.io", Version: "v1alpha1",
			Resource: "baremetalhosts"}, "", operation, nil, false, nil)
	rules := metal.NewAdmission()
	require.True(t, rules.Handles(operation))
	return rules.Validate(t.Context(), attributes, nil)
}

func merge(into, change map[string]any) {
	for key, value := range change {
		deeper, ok := value.(map[string]any)
		own, has := into[key].(map[string]any)
		switch {
		case ok && has:
			merge(own, deeper)
		case value == nil:
			delete(into, key)
		default:
			into[key] = value
		}
	}
}

func TestAdmission_metal3Rules(t *testing.T) {
	cases := []struct{ name, host, old, refusal string }{
		{"valid", `{}`, "", ""},
		{"label changed", `{"metadata":{"labels":{"a":"b"}}}`, `{}`, ""},
		{"UEFI HTTP boot", `{"spec":{"bmc":{"address":"redfish-uefihttp+http://192.0.2.7/redfish/v1/Systems/1"}}}`,
			"", ""},
		{"unknown scheme", `{"spec":{"bmc":{"address":"telnet://192.0.2.7"}}}`,
			"", "Unknown BMC type 'telnet'"},
		{"scheme that the status reports", `{"spec":{"bmc":{"address":"ipmi://192.0.2.7"}}}`,
			"", ""},
		{"invalid MAC address", `{"spec":{"bootMACAddress":"52:54"}}`, "", "invalid MAC address"},
		{"no MAC address without inspection",
			`{"metadata":{"annotations":{"inspect.metal3.io":"disabled"}},"spec":{"bootMACAddress":null}}`, "",
			"bootMACAddress is required"},
		{"UUID as name", `{"metadata":{"name":"7a5e7c0e-7a0c-4a8a-a0c1-8a1ec1a2c3d4"}}`, "", "cannot be a UUID"},
		{"invalid device name", `{"spec":{"rootDeviceHints":{"deviceName":"sda"}}}`, "", "must be a /dev/ path"},
		{"device by id", `{"spec":{"rootDeviceHints":{"deviceName":"/dev/disk/by-id/wwn-1"}}}`,
			"", "must be path in /dev/ or /dev/disk/by-path/"},
		{"hardware details with inspection",
			`{"metadata":{"annotations":{"inspect.metal3.io/hardwaredetails":"{}"}}}`, "", "must be set to disabled"},
		{"unknown hardware details",
			`{"metadata":{"annotations":{"inspect.metal3.io":"disabled","inspect.metal3.io/hardwaredetails":"{\"wheels\":4}"}}}`, "", "unknown field"},
		{"unknown reboot mode",
			`{"metadata":{"annotations":{"reboot.metal3.io":"{\"mode\":\"gentle\"}"}}}`, "", "invalid mode"},
		{"unknown inspection value", `{"metadata":{"annotations":{"inspect.metal3.io":"never"}}}`,
			"", "invalid value for the inspect.metal3.io annotation"},
		{"Secret in another namespace", `{"spec":{"userData":{"namespace":"other","name":"data"}}}`,
			"", "cross-namespace"},
		{"offline with power off disabled", `{"spec":{"online":false,"disablePowerOff":true}}`, "",
			"power off disabled"},
		{"invalid image URL", `{"spec":{"image":{"url":"here"}}}`, "", "image URL here is invalid"},
		{"another BMC",
			`{"spec":{"bmc":{"address":"redfish://192.0.2.8"}},"status":{"operationalStatus":"OK","provisioning":{"state":"available"}}}`, `{}`, "BMC address can not be changed"},
		{"BMC changed while registering",
			`{"spec":{"bmc":{"address":"redfish://192.0.2.8"}},"status":{"provisioning":{"state":"registering"}}}`,
			`{}`, ""},
		{"BMC changed while detached",
			`{"spec":{"bmc":{"address":"redfish://192.0.2.8"}},"status":{"operationalStatus":"detached","provisioning":{"state":"provisioned"}}}`, `{}`, ""},
		{"another MAC address", `{"spec":{"bootMACAddress":"52:54:00:aa:bb:02"}}`, `{}`,
			"bootMACAddress can not be changed once it is set"},
		{"invalid host being deleted",
			`{"metadata":{"deletionTimestamp":"2026-03-01T12:00:00Z"},"spec":{"bootMACAddress":"52:54:00:aa:bb:02"}}`,
			`{}`, ""},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			err := admitted(t, c.host, c.old)
			if c.refusal == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, `admission webhook "baremetalhost.metal3.io" denied the request: `)
			require.ErrorContains(t, err, c.refusal)
			require.True(t, apierrors.IsForbidden(err))
		})
	}
}

func TestNewAdmission_concurrent(t *testing.T) {
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() { metal.NewAdmission() })
	}
	group.Wait()
}
