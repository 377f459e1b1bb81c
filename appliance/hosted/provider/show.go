package provider

import (
	"time"

	"landfall/appliance/hosted/arm"
	"landfall/appliance/hosted/controlplane"
	"landfall/appliance/hosted/record"
	"landfall/store"
)

// identification returns the fields of a resource that a request may repeat.
func identification(id arm.ID) arm.Document {
	return arm.Document{"id": id.String(), "name": id.Name(), "type": id.Type()}
}

// showing returns a resource as clients see it.
func showing(resource *record.Resource) arm.Document {
	document := resource.Document.Clone()
	for name, value := range identification(resource.ID) {
		document[name] = value
	}
	system := map[string]any{}
	for name, value := range map[string]string{"createdBy": resource.System.CreatedBy,
		"createdByType": resource.System.CreatedByType, "lastModifiedBy": resource.System.LastModifiedBy,
		"lastModifiedByType": resource.System.LastModifiedByType} {
		if value != "" {
			system[name] = value
		}
	}
	for name, at := range map[string]time.Time{"createdAt": resource.System.CreatedAt,
		"lastModifiedAt": resource.System.LastModifiedAt} {
		if !at.IsZero() {
			system[name] = at.UTC().Format(time.RFC3339Nano)
		}
	}
	document["systemData"] = system
	document.Set("properties.provisioningState", resource.State)
	return document
}

// showCluster returns a cluster as clients see it. If the row of its management cluster can't be
// read, the fields that need it are missing.
func (s *Service) showCluster(tx *store.Tx, c *record.Cluster) arm.Document {
	document := showing(&c.Resource)
	m, err := record.GetManagement(tx, c.Consumer)
	if err != nil || m == nil {
		return document
	}
	document.Set("properties.dns.baseDomain", m.BaseDomain)
	if c.Observed.APIURL != "" {
		document.Set("properties.api.url", c.Observed.APIURL)
		document.Set("properties.console.url", "https://console-openshift-console.apps."+controlplane.Domain(c, m))
	}
	return document
}

// showResource returns a cluster or one of its children.
func (s *Service) showResource(tx *store.Tx, c *record.Cluster, id arm.ID) (arm.Document, error) {
	switch id.ChildType {
	case "":
		return s.showCluster(tx, c), nil
	case arm.NodePools:
		p, err := record.GetNodePool(tx, c.CID, id.Child)
		if err != nil || p == nil {
			return nil, err
		}
		return showing(&p.Resource), nil
	}
	a, err := record.GetExternalAuth(tx, c.CID, id.Child)
	if err != nil || a == nil {
		return nil, err
	}
	return showing(&a.Resource), nil
}
