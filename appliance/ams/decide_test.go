package ams

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"landfall/appliance/ams/outbox"
)

const decided = "fcf4c3c2-79a0-422c-8754-27cf02dfa9d2"

// situations calls fn with every combination of desired, recorded and observed states that can
// change a decision.
func situations(fn func(Situation)) {
	now := time.Date(2026, 3, 1, 8, 0, 0, 0, time.UTC)
	for _, phase := range []outbox.Phase{outbox.Absent, outbox.Reserved, outbox.Active} {
		for _, deleted := range []bool{false, true} {
			for _, confirmed := range []outbox.Fields{{}, {DisplayName: "one"}, {DisplayName: "older"},
				{DisplayName: "one", ExternalClusterID: external}} {
				for _, mark := range marks(now) {
					for _, id := range []string{"", "row0"} {
						for _, acked := range []string{"", statusReserved, statusActive} {
							for _, rows := range observations() {
								for _, flags := range []int{0, 1, 2, 4, 8, 16} {
									s := Situation{
										ClusterID: decided, Now: now, Courier: flags == 1, Refresh: flags == 2,
										Site: Site{Organization: "ours", AccountID: "me", FinalStatus: statusActive,
											Quarantine: 15 * time.Minute},
										Desired: outbox.Desired{Generation: 3, Phase: phase,
											MustExist: phase == outbox.Active, Fields: outbox.Fields{
												DisplayName: "one", ExternalClusterID: external,
												ConsoleURL: "https://console",
											}},
										Recorded: outbox.Recorded{
											SubscriptionID: id, Mark: mark, Acked: confirmed, AckedStatus: acked,
											Reverify: flags == 4, Twin: flags == 16 && id != "",
										},
									}
									if flags == 8 {
										s.Recorded.Generation = 3
									}
									if deleted {
										s.Desired.DeletedAt = now
									}
									s.Observed = Observed{BySearch, rows}
									if id != "" && (mark == nil || len(rows) < 2) {
										s.Observed.How = ByID
									}
									if rows == nil {
										s.Observed = Observed{}
									}
									fn(s)
								}
							}
						}
					}
				}
			}
		}
	}
}

func marks(now time.Time) []*outbox.Mark {
	return []*outbox.Mark{
		nil, {At: now, Tries: 1}, {At: now.Add(-20 * time.Minute), SearchedAt: now.Add(-16 * time.Minute), Tries: 1},
		{At: now.Add(-2 * time.Hour), SearchedAt: now.Add(-2 * time.Hour), Tries: 2},
		{At: now.Add(-2 * time.Hour), SearchedAt: now.Add(-2 * time.Hour), Tries: maxCreates},
		{At: now.AddDate(1, 0, 0), SearchedAt: now.AddDate(1, 0, 0), Tries: 1}, {At: now.AddDate(-1, 0, 0),
			SearchedAt: now.AddDate(-1, 0, 0), Tries: 1},
	}
}

// observations returns the possible states of AMS. Nil means that AMS was not read.
func observations() [][]Row {
	all := [][]Row{nil, {}}
	for _, status := range []string{statusReserved, statusActive, statusStale, statusArchived, statusDisconnected} {
		row := Row{ID: "row0", Status: status, ClusterID: decided, OrganizationID: "ours", CreatorID: "me",
			PlanCategory: assistedInstall, DisplayName: "one"}
		edited, foreign, theirs, twin, second := row, row, row, row, row
		edited.DisplayName, edited.ExternalClusterID = "edited", external
		foreign.OrganizationID = "theirs"
		theirs.ClusterID = "another"
		twin.ClusterID, twin.ExternalClusterID, twin.PlanCategory = "made-by-metrics", external, ""
		second.ID = "row1"
		done := edited
		done.DisplayName, done.ConsoleURL = "one", "https://console"
		all = append(all, []Row{row}, []Row{edited}, []Row{foreign}, []Row{theirs}, []Row{twin}, []Row{done},
			[]Row{row, second}, []Row{second, row, twin})
	}
	return all
}

func TestDecide_isAlwaysSafe(t *testing.T) {
	rules, count := map[int]bool{}, 0
	situations(func(s Situation) {
		count++
		a := Decide(s)
		rules[a.Rule] = true
		describe := func(what string) string { return fmt.Sprintf("%s: %+v of %+v", what, a, s) }
		if again := Decide(s); again.Do != a.Do || again.Rule != a.Rule {
			t.Fatal(describe("two decisions of one situation differ"))
		}
		if s.Observed.How == NotRead && a.Do != Read && a.Do != Rest && a.Do != Close {
			t.Fatal(describe("an action without a read of AMS"))
		}
		absent := s.Desired.Phase == outbox.Absent
		switch a.Do {
		case Create:
			if absent || s.Observed.How != BySearch || s.Recorded.SubscriptionID != "" || len(s.ours()) > 0 {
				t.Fatal(describe("a second subscription could be created"))
			}
			if mark := s.Recorded.Mark; mark != nil && (mark.Tries >= maxCreates ||
				s.Now.Sub(mark.SearchedAt) < s.Site.Quarantine || s.Now.Sub(mark.SearchedAt) > maxQuarantineAge) {
				t.Fatal(describe("a creation during the quarantine"))
			}
		case Delete:
			surplus := len(s.ours()) > 1 && s.made(a.Row)
			if a.Row.Status != statusReserved || s.foreign(a.Row) || !absent && !surplus {
				t.Fatal(describe("a subscription would be lost"))
			}
		case Update:
			if absent || s.foreign(a.Row) || a.Patch == (outbox.Fields{}) && a.Status == "" {
				t.Fatal(describe("an update without changes"))
			}
			if a.Status != "" && (a.Row.Status != statusReserved || s.Desired.Phase != outbox.Active) {
				t.Fatal(describe("the status would go back"))
			}
		case Close:
			if !absent && s.Desired.DeletedAt.IsZero() {
				t.Fatal(describe("the subscription of an existing cluster is closed"))
			}
		case Refuse, Dispute:
			if a.Reason == "" || !strings.HasSuffix(a.Reason, ".") {
				t.Fatal(describe("the reason is not a sentence"))
			}
		case Adopt:
			if !s.sameOrganization(a.Row) && !absent {
				t.Fatal(describe("a row of another organization is adopted"))
			}
		}
	})
	require.Greater(t, count, 10_000)

	page, err := os.ReadFile("../../docs/ams.md")
	require.NoError(t, err)
	written := map[int]bool{}
	for _, line := range regexp.MustCompile(`(?m)^\| ([0-9]{1,2}(?:, [0-9]{1,2})*) \|`).
		FindAllStringSubmatch(string(page), -1) {
		for text := range strings.SplitSeq(line[1], ", ") {
			number, err := strconv.Atoi(text)
			require.NoError(t, err)
			written[number] = true
		}
	}
	delete(rules, 0) // read and rest
	for number := range rules {
		require.True(t, written[number], "rule %d is not in docs/ams.md", number)
	}
	for number := range written {
		require.True(t, rules[number], "no decision uses rule %d of docs/ams.md", number)
	}
}

func TestDecide_unconfirmedValueIsNoEdit(t *testing.T) {
	s := Situation{
		ClusterID: decided, Site: Site{Organization: "ours"},
		Desired: outbox.Desired{Generation: 3, Phase: outbox.Reserved, Fields: outbox.Fields{DisplayName: "one"}},
		Recorded: outbox.Recorded{
			SubscriptionID: "row0", Acked: outbox.Fields{DisplayName: "one"},
			Unconfirmed: []outbox.Fields{{DisplayName: "between"}},
		},
		Observed: Observed{ByID, []Row{{ID: "row0", Status: statusReserved, ClusterID: decided, OrganizationID: "ours",
			DisplayName: "between"}}},
	}
	update := Decide(s)
	require.Equal(t, Update, update.Do)
	require.Equal(t, outbox.Fields{DisplayName: "one"}, update.Patch)

	s.Recorded.Unconfirmed = nil
	left := Decide(s)
	require.Equal(t, Rest, left.Do)
	require.Contains(t, left.Note, `changed in AMS to "between"`)
}
