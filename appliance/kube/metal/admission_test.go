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

// admitted asks whether a host may be applied that is altered by a JSON merge patch; with old,
// whether it may be made of the one by old.
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
		{"a good one", `{}`, "", ""},
		{"a changed label", `{"metadata":{"labels":{"a":"b"}}}`, `{}`, ""},
		{"UEFI HTTP boot", `{"spec":{"bmc":{"address":"redfish-uefihttp+http://192.0.2.7/redfish/v1/Systems/1"}}}`,
			"", ""},
		{"a scheme that nobody knows", `{"spec":{"bmc":{"address":"telnet://192.0.2.7"}}}`,
			"", "Unknown BMC type 'telnet'"},
		{"a scheme that only this site refuses, in its status", `{"spec":{"bmc":{"address":"ipmi://192.0.2.7"}}}`,
			"", ""},
		{"a MAC address that is none", `{"spec":{"bootMACAddress":"52:54"}}`, "", "invalid MAC address"},
		{"no MAC address without inspection",
			`{"metadata":{"annotations":{"inspect.metal3.io":"disabled"}},"spec":{"bootMACAddress":null}}`, "",
			"bootMACAddress is required"},
		{"a UUID for a name", `{"metadata":{"name":"7a5e7c0e-7a0c-4a8a-a0c1-8a1ec1a2c3d4"}}`, "", "cannot be a UUID"},
		{"a device that is no device", `{"spec":{"rootDeviceHints":{"deviceName":"sda"}}}`, "", "must be a /dev/ path"},
		{"a device by its id", `{"spec":{"rootDeviceHints":{"deviceName":"/dev/disk/by-id/wwn-1"}}}`,
			"", "must be path in /dev/ or /dev/disk/by-path/"},
		{"details of the hardware while it is inspected",
			`{"metadata":{"annotations":{"inspect.metal3.io/hardwaredetails":"{}"}}}`, "", "must be set to disabled"},
		{"details of the hardware that nobody knows",
			`{"metadata":{"annotations":{"inspect.metal3.io":"disabled","inspect.metal3.io/hardwaredetails":"{\"wheels\":4}"}}}`, "", "unknown field"},
		{"a reboot of a kind that there is not",
			`{"metadata":{"annotations":{"reboot.metal3.io":"{\"mode\":\"gentle\"}"}}}`, "", "invalid mode"},
		{"an inspection by another word", `{"metadata":{"annotations":{"inspect.metal3.io":"never"}}}`,
			"", "invalid value for the inspect.metal3.io annotation"},
		{"a Secret of another namespace", `{"spec":{"userData":{"namespace":"other","name":"data"}}}`,
			"", "cross-namespace"},
		{"off, and never to be powered off", `{"spec":{"online":false,"disablePowerOff":true}}`, "",
			"power off disabled"},
		{"an image URL that is none", `{"spec":{"image":{"url":"here"}}}`, "", "image URL here is invalid"},
		{"another BMC",
			`{"spec":{"bmc":{"address":"redfish://192.0.2.8"}},"status":{"operationalStatus":"OK","provisioning":{"state":"available"}}}`, `{}`, "BMC address can not be changed"},
		{"another BMC while it registers",
			`{"spec":{"bmc":{"address":"redfish://192.0.2.8"}},"status":{"provisioning":{"state":"registering"}}}`,
			`{}`, ""},
		{"another BMC while it is detached",
			`{"spec":{"bmc":{"address":"redfish://192.0.2.8"}},"status":{"operationalStatus":"detached","provisioning":{"state":"provisioned"}}}`, `{}`, ""},
		{"another MAC address", `{"spec":{"bootMACAddress":"52:54:00:aa:bb:02"}}`, `{}`,
			"bootMACAddress can not be changed once it is set"},
		{"a wrong one that is being deleted",
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
	var begun sync.WaitGroup
	for range 8 {
		begun.Go(func() { metal.NewAdmission() })
	}
	begun.Wait()
}
