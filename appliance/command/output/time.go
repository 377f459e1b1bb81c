package output

import "time"

// Time formats a time for a person: in UTC, with the zone, because the times of a command are
// compared with those of logs and of other machines. It returns "" for the zero time.
func Time(at time.Time) string {
	if at.Year() <= 1 { // JSON of the API has zero times in other zones too
		return ""
	}
	return at.UTC().Format("2006-01-02 15:04:05 UTC")
}
