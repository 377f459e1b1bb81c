package amstest

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"landfall/appliance/ams/tsl"
)

// This file contains the calls on subscriptions and the in-memory transport.

func (s *Server) search(w http.ResponseWriter, account Account, query url.Values) {
	wanted, err := tsl.Parse(query.Get("search"))
	if err != nil {
		s.fail(w, http.StatusBadRequest, 23, err.Error())
		return
	}
	var found []any
	var ids []string
	if cluster, ok := wanted.Equal("cluster_id"); ok { // tests search for thousands of rows, one by one
		ids = slices.Compact(slices.Sorted(slices.Values(s.of[cluster])))
	} else {
		ids = slices.Sorted(maps.Keys(s.rows))
	}
	for _, id := range ids {
		row := s.visible(account, id)
		if row == nil || s.clock.Now().Sub(s.made[id]) < s.SearchLag {
			continue
		}
		ok, err := wanted.Match(row)
		if err != nil {
			s.fail(w, http.StatusBadRequest, 23, err.Error())
			return
		}
		if ok {
			found = append(found, row)
		}
	}
	list(w, "SubscriptionList", query, found)
}

func list(w http.ResponseWriter, kind string, query url.Values, all []any) {
	page, size := atoi(query.Get("page"), 1), atoi(query.Get("size"), 100)
	from := min((page-1)*size, len(all))
	items := append([]any{}, all[from:min(from+size, len(all))]...)
	reply(w, http.StatusOK, map[string]any{"kind": kind, "page": page, "size": len(items), "total": len(all),
		"items": items})
}

func atoi(text string, otherwise int) int {
	if number, err := strconv.Atoi(text); err == nil && number > 0 {
		return number
	}
	return otherwise
}

var (
	patchable = []string{
		"kind", "id", "href", "cluster_id", "external_cluster_id", "display_name", "console_url", "status",
		"support_level", "usage", "service_level", "system_units",
		"cpu_total", "socket_total", "cloud_provider_id", "region_id",
	}
	statuses = []string{"Reserved", "Active", "Stale", "Archived", "Disconnected", "Deprovisioned"}
)

func (s *Server) patch(w http.ResponseWriter, account Account, id string, body []byte) {
	row := s.visible(account, id)
	if row == nil || row["status"] == "Deprovisioned" {
		s.fail(w, http.StatusNotFound, 7, "Subscription with id='"+id+"' not found")
		return
	}
	var fields map[string]any
	if err := json.Unmarshal(body, &fields); err != nil {
		s.fail(w, http.StatusBadRequest, 17, "The body can not be read")
		return
	}
	for name, value := range fields {
		switch {
		case slices.Contains(s.ForbiddenFields, name):
			s.fail(w, http.StatusForbidden, 11, "The account may not change "+name)
			return
		case !slices.Contains(patchable, name), name == "status" && !slices.Contains(statuses, fmt.Sprint(value)),
			name == "status" && value == "Disconnected" && s.RefuseDisconnected:
			s.fail(w, http.StatusBadRequest, 8, fmt.Sprintf("The field %s can not be %v", name, value))
			return
		}
	}
	delete(fields, "kind")
	maps.Copy(row, fields)
	row["updated_at"] = s.now()
	s.note(id)
	reply(w, http.StatusOK, row)
}

func (s *Server) delete(w http.ResponseWriter, account Account, id string) {
	row := s.visible(account, id)
	if row == nil || row["status"] == "Deprovisioned" {
		s.fail(w, http.StatusNotFound, 7, "Subscription with id='"+id+"' not found")
		return
	}
	s.deleted = append(s.deleted, id)
	s.markDeleted(id)
	if s.SDKStatuses {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	w.WriteHeader(http.StatusOK)
}

func (s *Server) others(w http.ResponseWriter, account Account, r *http.Request, request Request) {
	switch path := strings.TrimPrefix(r.URL.Path, Root); {
	case path == "/organizations/"+account.Organization:
		reply(w, http.StatusOK, organizationObject(account))
	case path == "/accounts":
		list(w, "AccountList", request.Query, []any{accountObject(account)})
	case path == "/deleted_subscriptions":
		var all []any
		for _, row := range s.gone {
			all = append(all, row)
		}
		list(w, "DeletedSubscriptionList", request.Query, all)
	case path == "/subscriptions" && r.Method == http.MethodPost:
		s.disconnected(w, account, request.Body)
	default:
		s.fail(w, http.StatusNotFound, 7, "There is nothing at "+r.URL.Path)
	}
}

// disconnected implements "register disconnected cluster" of the console, which always creates
// another row.
func (s *Server) disconnected(w http.ResponseWriter, account Account, body []byte) {
	var ask struct {
		ClusterUUID string `json:"cluster_uuid"`
		Status      string `json:"status"`
		DisplayName string `json:"display_name"`
	}
	if json.Unmarshal(body, &ask) != nil || ask.ClusterUUID == "" || ask.Status != "Disconnected" {
		s.fail(w, http.StatusBadRequest, 8, "cluster_uuid is required and status can only be Disconnected")
		return
	}
	row := s.create(account, s.id(), ask.DisplayName)
	row["status"], row["external_cluster_id"], row["plan"] = "Disconnected", ask.ClusterUUID,
		map[string]any{"id": "OCP", "kind": "Plan"}
	s.note(row["id"].(string))
	reply(w, http.StatusCreated, row)
}

// Transport calls a handler in memory. If the handler aborts, the connection is broken.
type Transport struct{ Handler http.Handler }
