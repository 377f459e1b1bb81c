package kube

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/conversion"
	"k8s.io/apimachinery/pkg/runtime"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/endpoints/request"
)

// Newer recorders write Events in the group events.k8s.io. Both groups share the same rows: an
// Event is stored in the form of the core group, which is the internal form of both, and converted
// when a client of the new group writes or reads it.

// newEventFields maps the field selectors of Events in the new group to those in the old one.
var newEventFields = map[string]string{
	"reason": "reason", "type": "type", "reportingController": "reportingComponent",
	"regarding.kind": "involvedObject.kind", "regarding.namespace": "involvedObject.namespace",
	"regarding.name": "involvedObject.name",
	"regarding.uid":  "involvedObject.uid", "regarding.apiVersion": "involvedObject.apiVersion",
	"regarding.resourceVersion": "involvedObject.resourceVersion", "regarding.fieldPath": "involvedObject.fieldPath",
}

// addNewEvents registers the conversion of Events between the groups.
func addNewEvents(scheme *runtime.Scheme) error {
	for _, add := range []error{
		convert(scheme, func(in *eventsv1.Event, out *corev1.Event) { *out = *oldEvent(in) }),
		convert(scheme, func(in *corev1.Event, out *eventsv1.Event) { *out = *newEvent(in) }),
		convert(scheme, func(in *eventsv1.EventList, out *corev1.EventList) {
			out.ListMeta, out.Items = in.ListMeta, make([]corev1.Event, len(in.Items))
			for i := range in.Items {
				out.Items[i] = *oldEvent(&in.Items[i])
			}
		}),
		convert(scheme, func(in *corev1.EventList, out *eventsv1.EventList) {
			out.ListMeta, out.Items = in.ListMeta, make([]eventsv1.Event, len(in.Items))
			for i := range in.Items {
				out.Items[i] = *newEvent(&in.Items[i])
			}
		}),
	} {
		if add != nil {
			return add
		}
	}
	return scheme.AddFieldLabelConversionFunc(eventsv1.SchemeGroupVersion.WithKind("Event"),
		func(label, value string) (string, string, error) {
			if old, ok := newEventFields[label]; ok {
				return old, value, nil
			}
			return runtime.DefaultMetaV1FieldSelectorConversion(label, value)
		})
}

func convert[From, To any](scheme *runtime.Scheme, fn func(in *From, out *To)) error {
	return scheme.AddConversionFunc((*From)(nil), (*To)(nil), func(in, out any, _ conversion.Scope) error {
		fn(in.(*From), out.(*To))
		return nil
	})
}

func oldEvent(e *eventsv1.Event) *corev1.Event {
	old := &corev1.Event{
		ObjectMeta: e.ObjectMeta, InvolvedObject: e.Regarding, Reason: e.Reason, Message: e.Note,
		Source:         e.DeprecatedSource,
		FirstTimestamp: e.DeprecatedFirstTimestamp, LastTimestamp: e.DeprecatedLastTimestamp, Count: e.DeprecatedCount,
		Type:      e.Type,
		EventTime: e.EventTime, Action: e.Action, Related: e.Related, ReportingController: e.ReportingController,
		ReportingInstance: e.ReportingInstance,
	}
	if e.Series != nil {
		old.Series = &corev1.EventSeries{Count: e.Series.Count, LastObservedTime: e.Series.LastObservedTime}
	}
	return old
}

func newEvent(e *corev1.Event) *eventsv1.Event {
	renewed := &eventsv1.Event{
		ObjectMeta: e.ObjectMeta, Regarding: e.InvolvedObject, Reason: e.Reason, Note: e.Message,
		DeprecatedSource:         e.Source,
		DeprecatedFirstTimestamp: e.FirstTimestamp, DeprecatedLastTimestamp: e.LastTimestamp, DeprecatedCount: e.Count,
		Type:      e.Type,
		EventTime: e.EventTime, Action: e.Action, Related: e.Related, ReportingController: e.ReportingController,
		ReportingInstance: e.ReportingInstance,
	}
	if e.Series != nil {
		renewed.Series = &eventsv1.EventSeries{Count: e.Series.Count, LastObservedTime: e.Series.LastObservedTime}
	}
	return renewed
}

// Length limits of the texts of an Event of the new group, in bytes (k8s.io/api/events/v1).
const (
	eventWord = 128
	eventNote = 1024
)

// validateNewEvent validates an Event of the new group with the rules of clusters. The old group
// accepts any Event.
func validateNewEvent(ctx context.Context, object runtime.Object) (list field.ErrorList) {
	event, ok := object.(*corev1.Event)
	if info, found := request.RequestInfoFrom(ctx); !ok || !found || info.APIGroup != eventsv1.GroupName {
		return nil
	}
	if event.EventTime.IsZero() {
		list = append(list, field.Required(field.NewPath("eventTime"), ""))
	}
	if event.Type != corev1.EventTypeNormal && event.Type != corev1.EventTypeWarning {
		list = append(list, field.Invalid(field.NewPath("type"), event.Type, "must be Normal or Warning"))
	}
	for _, text := range []struct{ name, value string }{
		{"reportingController", event.ReportingController}, {"reportingInstance", event.ReportingInstance},
		{"action", event.Action}, {"reason", event.Reason},
	} {
		switch at := field.NewPath(text.name); {
		case text.value == "":
			list = append(list, field.Required(at, ""))
		case len(text.value) > eventWord:
			list = append(list, field.Invalid(at, "", fmt.Sprintf("can have at most %d characters", eventWord)))
		}
	}
	for _, problem := range utilvalidation.IsQualifiedName(event.ReportingController) {
		list = append(list, field.Invalid(field.NewPath("reportingController"), event.ReportingController, problem))
	}
	if len(event.Message) > eventNote {
		list = append(list, field.Invalid(field.NewPath("note"), "", fmt.Sprintf("can have at most %d characters",
			eventNote)))
	}
	return list
}
