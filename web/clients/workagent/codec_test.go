package workagent

import (
	"context"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	cloudeventsmqtt "github.com/cloudevents/sdk-go/protocol/mqtt_paho/v2"
	cloudevents "github.com/cloudevents/sdk-go/v2"
	"github.com/cloudevents/sdk-go/v2/binding"
	"github.com/eclipse/paho.golang/paho"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	workv1 "open-cluster-management.io/api/work/v1"
	"open-cluster-management.io/sdk-go/pkg/cloudevents/clients/common"
	agentcodec "open-cluster-management.io/sdk-go/pkg/cloudevents/clients/work/agent/codec"
	"open-cluster-management.io/sdk-go/pkg/cloudevents/clients/work/payload"
	sourcecodec "open-cluster-management.io/sdk-go/pkg/cloudevents/clients/work/source/codec"
	sdkpayload "open-cluster-management.io/sdk-go/pkg/cloudevents/generic/payload"
	"open-cluster-management.io/sdk-go/pkg/cloudevents/generic/types"

	"landfall/appliance/hosted/cloudevent"
)

var update = flag.Bool("update", false, "write the golden messages")

// golden is the directory of the messages that the SDK made.
const golden = "../../../appliance/hosted/cloudevent/testdata"

var at = time.Date(2026, 3, 4, 5, 6, 7, 890_000_000, time.UTC)

// sample is the ManifestWork of the golden messages.
func sample() *workv1.ManifestWork {
	return &workv1.ManifestWork{
		ObjectMeta: metav1.ObjectMeta{
			UID: "0bd1f8a4-6d6b-4f30-9b5c-52e1a2f0b001", Name: "0bd1f8a4-6d6b-4f30-9b5c-52e1a2f0b001", Namespace: "mc1",
			Generation: 3,
			Labels: map[string]string{"api.openshift.com/id": "1a2b",
				common.CloudEventsOriginalSourceLabelKey: "maestro"},
			Annotations: map[string]string{"landfall.io/epoch": "e1"},
		},
		Spec: workv1.ManifestWorkSpec{
			Workload: workv1.ManifestsTemplate{Manifests: []workv1.Manifest{{RawExtension: runtime.RawExtension{
				Raw: []byte(`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"ocm-1a2b"}}`)}}}},
			DeleteOption: &workv1.DeleteOption{PropagationPolicy: workv1.DeletePropagationPolicyTypeForeground},
			ManifestConfigs: []workv1.ManifestConfigOption{{
				ResourceIdentifier: workv1.ResourceIdentifier{Resource: "namespaces", Name: "ocm-1a2b"},
				UpdateStrategy:     &workv1.UpdateStrategy{Type: workv1.UpdateStrategyTypeServerSideApply},
			}},
		},
		Status: workv1.ManifestWorkStatus{
			Conditions: []metav1.Condition{{Type: "Applied", Status: metav1.ConditionTrue, ObservedGeneration: 3,
				Reason: "AppliedManifestWorkComplete", LastTransitionTime: metav1.NewTime(at)}},
			ResourceStatus: workv1.ManifestResourceStatus{Manifests: []workv1.ManifestCondition{{
				ResourceMeta: workv1.ManifestResourceMeta{Version: "v1", Kind: "Namespace", Resource: "namespaces",
					Name: "ocm-1a2b"},
				Conditions: []metav1.Condition{},
			}}},
		},
	}
}

// fixed replaces what differs in each run.
func fixed(event cloudevents.Event) cloudevents.Event {
	event.SetID("f9d1a5a2-0000-4000-8000-000000000001")
	event.SetTime(at)
	if _, ok := event.Extensions()[types.ExtensionStatusUpdateSequenceID]; ok {
		event.SetExtension(types.ExtensionStatusUpdateSequenceID, "2029134012345678848")
	}
	return event
}

func eventType(part types.EventSubResource, action types.EventAction) types.CloudEventsType {
	return types.CloudEventsType{CloudEventsDataType: payload.ManifestBundleEventDataType, SubResource: part,
		Action: action}
}

// events returns the events of the golden messages, made by the SDK.
func events(t *testing.T) map[string]cloudevents.Event {
	t.Helper()
	made := map[string]cloudevents.Event{}
	spec := func(name string, action types.EventAction, change func(*workv1.ManifestWork)) {
		w := sample()
		change(w)
		event, err := sourcecodec.NewManifestBundleCodec().Encode("maestro",
			eventType(types.SubResourceSpec, action), w)
		require.NoError(t, err)
		made[name] = fixed(*event)
	}
	spec("spec-create", types.CreateRequestAction, func(*workv1.ManifestWork) {})
	spec("spec-update", types.UpdateRequestAction, func(w *workv1.ManifestWork) { w.Generation = 4 })
	spec("spec-delete", types.DeleteRequestAction, func(w *workv1.ManifestWork) {
		w.DeletionTimestamp = &metav1.Time{Time: at.Truncate(time.Second)}
	})
	for name, action := range map[string]types.EventAction{"status-update": types.UpdateRequestAction,
		"status-resync-response": types.ResyncResponseAction} {
		event, err := agentcodec.NewManifestBundleCodec().Encode("mc1-work-agent",
			eventType(types.SubResourceStatus, action), sample())
		require.NoError(t, err)
		made[name] = fixed(*event)
	}
	request := func(name, source string, kind types.CloudEventsType, data any) {
		event := types.NewEventBuilder(source, kind).WithClusterName("mc1").NewEvent()
		require.NoError(t, event.SetData(cloudevents.ApplicationJSON, data))
		made[name] = fixed(event)
	}
	specs := eventType(types.SubResourceSpec, types.ResyncRequestAction)
	request("spec-resync-request", "mc1-work-agent", specs,
		sdkpayload.ResourceVersionList{Versions: []sdkpayload.ResourceVersion{{ResourceID: "b1", ResourceVersion: 3}}})
	request("spec-resync-request-empty", "mc1-work-agent", specs,
		sdkpayload.ResourceVersionList{Versions: []sdkpayload.ResourceVersion{}})
	request("status-resync-request", "maestro", eventType(types.SubResourceStatus, types.ResyncRequestAction),
		sdkpayload.ResourceStatusHashList{
			Hashes: []sdkpayload.ResourceStatusHash{{ResourceID: "b1", StatusHash: "ab"}}})
	return made
}

func message(t *testing.T, event cloudevents.Event, structured bool) cloudevent.Message {
	t.Helper()
	ctx := context.Background()
	if structured {
		ctx = binding.WithForceStructured(ctx)
	}
	publish := &paho.Publish{}
	require.NoError(t, cloudeventsmqtt.WritePubMessage(ctx, (*binding.EventMessage)(&event), publish))
	m := cloudevent.Message{ContentType: publish.Properties.ContentType, Payload: publish.Payload}
	for _, property := range publish.Properties.User {
		m.Properties = append(m.Properties, cloudevent.Property{Key: property.Key, Value: property.Value})
	}
	return m
}

// TestCodec_goldenMessages compares the golden messages with those that the SDK makes.
func TestCodec_goldenMessages(t *testing.T) {
	compare := func(name string, m cloudevent.Message) {
		text, err := json.MarshalIndent(map[string]any{"content_type": m.ContentType, "properties": properties(m),
			"payload": string(m.Payload)}, "", "  ")
		require.NoError(t, err)
		file := filepath.Join(golden, name+".json")
		if *update {
			require.NoError(t, os.WriteFile(file, append(text, '\n'), 0o644))
			return
		}
		held, err := os.ReadFile(file)
		require.NoError(t, err)
		require.JSONEq(t, string(held), string(text), name)
	}
	for name, event := range events(t) {
		compare(name, message(t, event, false))
	}
	compare("structured", message(t, events(t)["status-update"], true))
}

func properties(m cloudevent.Message) map[string]string {
	all := map[string]string{}
	for _, property := range m.Properties {
		all[property.Key] = property.Value
	}
	return all
}

// TestCodec_sdkReadsOurMessages decodes with the SDK what the appliance encodes, and compares the
// result with what the SDK makes of its own message.
func TestCodec_sdkReadsOurMessages(t *testing.T) {
	for name, event := range events(t) {
		if event.Extensions()[types.ExtensionResourceID] == nil || event.Source() != "maestro" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			ours, err := cloudevent.Parse(message(t, event, false))
			require.NoError(t, err)
			want, err := agentcodec.NewManifestBundleCodec().Decode(&event)
			require.NoError(t, err)
			got, err := agentcodec.NewManifestBundleCodec().Decode(received(t, ours.Message()))
			require.NoError(t, err)
			require.Equal(t, want, got)
		})
	}
}

// received returns the event that the SDK reads from a message.
func received(t *testing.T, m cloudevent.Message) *cloudevents.Event {
	t.Helper()
	publish := &paho.Publish{Payload: m.Payload, Properties: &paho.PublishProperties{ContentType: m.ContentType}}
	for _, property := range m.Properties {
		publish.Properties.User.Add(property.Key, property.Value)
	}
	event, err := binding.ToEvent(context.Background(), cloudeventsmqtt.NewMessage(publish))
	require.NoError(t, err)
	return event
}
