package kube

import (
	"context"
	"slices"
	"strconv"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/duration"
)

// column is a column of the table that kubectl prints, after the name.
type column struct {
	name, kind, help string
	wide             bool // only with -o wide
	value            func(object runtime.Object) any
}

// table prints the objects of a resource. The first column is the name unless another column is.
type table struct {
	resource schema.GroupResource
	columns  []column
}

// all returns the columns including the name.
func (t table) all() []column {
	if slices.ContainsFunc(t.columns, func(c column) bool { return c.name == nameColumn }) {
		return t.columns
	}
	return append([]column{name()}, t.columns...)
}

// ConvertToTable returns the table of an object or a list.
func (t table) ConvertToTable(_ context.Context, object, options runtime.Object) (*metav1.Table, error) {
	result, columns := new(metav1.Table), t.all()
	if list, err := meta.ListAccessor(object); err == nil {
		result.ResourceVersion, result.Continue, result.RemainingItemCount = list.GetResourceVersion(),
			list.GetContinue(), list.GetRemainingItemCount()
	} else if single, err := meta.CommonAccessor(object); err == nil {
		result.ResourceVersion = single.GetResourceVersion()
	}
	if o, ok := options.(*metav1.TableOptions); !ok || !o.NoHeaders {
		for _, c := range columns {
			definition := metav1.TableColumnDefinition{Name: c.name, Type: c.kind, Description: c.help}
			if c.name == nameColumn {
				definition.Format = "name"
			}
			if c.wide {
				definition.Priority = 1
			}
			result.ColumnDefinitions = append(result.ColumnDefinitions, definition)
		}
	}
	add := func(item runtime.Object) error {
		row := metav1.TableRow{Object: runtime.RawExtension{Object: item}}
		for _, c := range columns {
			row.Cells = append(row.Cells, c.value(item))
		}
		result.Rows = append(result.Rows, row)
		return nil
	}
	if meta.IsListType(object) {
		return result, meta.EachListItem(object, add)
	}
	return result, add(object)
}

func text(name, help string, value func(runtime.Object) any) column {
	return column{name: name, kind: "string", help: help, value: value}
}

func wide(c column) column {
	c.wide = true
	return c
}

const nameColumn = "Name"

func name() column {
	return text(nameColumn, "name of the object", func(object runtime.Object) any {
		accessor, err := meta.Accessor(object)
		if err != nil {
			return "<unknown>"
		}
		return accessor.GetName()
	})
}

// age returns the last column of every table.
func age() column {
	return text("Age", "time since the object was created", func(object runtime.Object) any {
		accessor, err := meta.Accessor(object)
		if err != nil {
			return "<unknown>"
		}
		return since(accessor.GetCreationTimestamp())
	})
}

func ageOnly() []column { return []column{age()} }

func since(at metav1.Time) string {
	if at.IsZero() {
		return "<unknown>"
	}
	return duration.HumanDuration(time.Since(at.Time))
}

func namespaceColumns() []column {
	return []column{text("Status", "whether the namespace is active or being deleted", func(object runtime.Object) any {
		return string(object.(*corev1.Namespace).Status.Phase)
	}), age()}
}

func secretColumns() []column {
	return []column{
		text("Type", "type of the data",
			func(object runtime.Object) any { return string(object.(*corev1.Secret).Type) }),
		{name: "Data", kind: "integer", help: "number of keys",
			value: func(object runtime.Object) any { return int64(len(object.(*corev1.Secret).Data)) }},
		age(),
	}
}

func configMapColumns() []column {
	return []column{
		{name: "Data", kind: "integer", help: "number of keys", value: func(object runtime.Object) any {
			config := object.(*corev1.ConfigMap)
			return int64(len(config.Data) + len(config.BinaryData))
		}},
		age(),
	}
}

func eventColumns() []column {
	event := func(fn func(*corev1.Event) any) func(runtime.Object) any {
		return func(object runtime.Object) any { return fn(object.(*corev1.Event)) }
	}
	return []column{
		text("Last Seen", "time since the last occurrence", event(func(e *corev1.Event) any {
			switch {
			case e.Series != nil:
				return since(metav1.Time(e.Series.LastObservedTime))
			case !e.LastTimestamp.IsZero():
				return since(e.LastTimestamp)
			}
			return since(metav1.Time(e.EventTime))
		})),
		text("Type", "Normal or Warning", event(func(e *corev1.Event) any { return e.Type })),
		text("Reason", "reason of the event, one word", event(func(e *corev1.Event) any { return e.Reason })),
		text("Object", "object of the event", event(func(e *corev1.Event) any { return eventAbout(e) })),
		wide(text("Source", "component that reported the event", event(func(e *corev1.Event) any {
			if e.Source.Component != "" {
				return e.Source.Component
			}
			return e.ReportingController
		}))),
		text("Message", "description of the event", event(func(e *corev1.Event) any { return e.Message })),
		wide(text("First Seen", "time since the first occurrence", event(func(e *corev1.Event) any {
			if e.FirstTimestamp.IsZero() {
				return since(metav1.Time(e.EventTime))
			}
			return since(e.FirstTimestamp)
		}))),
		wide(text("Count", "number of occurrences", event(func(e *corev1.Event) any {
			if e.Series != nil {
				return strconv.Itoa(int(e.Series.Count))
			}
			return strconv.Itoa(int(max(1, e.Count)))
		}))),
		wide(name()),
	}
}

func leaseColumns() []column {
	return []column{text("Holder", "holder of the lease", func(object runtime.Object) any {
		if holder := object.(*coordinationv1.Lease).Spec.HolderIdentity; holder != nil {
			return *holder
		}
		return ""
	}), age()}
}

func deploymentColumns() []column {
	deployment := func(fn func(*appsv1.Deployment) any) func(runtime.Object) any {
		return func(object runtime.Object) any { return fn(object.(*appsv1.Deployment)) }
	}
	return []column{
		text("Ready", "ready pods of the desired pods", deployment(func(d *appsv1.Deployment) any {
			wanted := int32(1)
			if d.Spec.Replicas != nil {
				wanted = *d.Spec.Replicas
			}
			return strconv.Itoa(int(d.Status.ReadyReplicas)) + "/" + strconv.Itoa(int(wanted))
		})),
		text("Up-to-date", "pods of the newest version",
			deployment(func(d *appsv1.Deployment) any { return strconv.Itoa(int(d.Status.UpdatedReplicas)) })),
		text("Available", "available pods",
			deployment(func(d *appsv1.Deployment) any { return strconv.Itoa(int(d.Status.AvailableReplicas)) })),
		age(),
	}
}
