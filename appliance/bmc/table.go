package bmc

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// TableRow is a row of a table of servers: what is wanted, or what is wrong with it.
type TableRow struct {
	Line     int     `json:"line"` // of the table, from 1
	Desired  Desired `json:"-"`
	InfraEnv string  `json:"-"` // as it was given: a name or an id
	Err      error   `json:"-"`
}

// The columns of a table, in the order that one without a header has.
var tableColumns = []string{"name", "address", "username", "password", "boot_mac", "infra_env", "skip_verify",
	"boot_mode"}

// tableNames are what columns are called elsewhere, in lower case without blanks, hyphens and
// underscores.
var tableNames = map[string]string{
	"name": "name", "host": "name", "hostname": "name", "server": "name",
	"address": "address", "bmc": "address", "bmcaddress": "address", "url": "address",
	"username": "username", "user": "username", "bmcusername": "username", "login": "username",
	"password": "password", "bmcpassword": "password",
	"bootmac": "boot_mac", "mac": "boot_mac", "bootmacaddress": "boot_mac", "macaddress": "boot_mac",
	"infraenv": "infra_env", "infraenvid": "infra_env",
	"skipverify": "skip_verify", "disablecertificateverification": "skip_verify", "insecure": "skip_verify",
	"bootmode": "boot_mode",
}

// tableLimit is how many rows a table may have.
const tableLimit = 2_000

// ReadTable reads a table of servers as people paste it: CSV with commas, semicolons or tabs, with
// a header or without. An address without a scheme is taken for that of a Redfish BMC. A table that
// can't be read at all is a *RequestError; what is wrong with one row is in that row.
func ReadTable(r io.Reader) ([]TableRow, error) {
	text, err := io.ReadAll(r)
	if err != nil {
		return nil, err
	}
	content := strings.TrimPrefix(string(text), "\ufeff")
	reader := csv.NewReader(strings.NewReader(content))
	first, _, _ := strings.Cut(strings.TrimLeft(content, "\r\n"), "\n")
	for _, comma := range []rune{'\t', ';'} {
		if strings.ContainsRune(first, comma) {
			reader.Comma = comma
			break
		}
	}
	reader.FieldsPerRecord, reader.TrimLeadingSpace, reader.Comment = -1, reader.Comma != '\t', '#'
	columns := tableColumns
	var rows []TableRow
	names := map[string]int{}
	for begun := false; ; begun = true {
		record, err := reader.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil,
				&RequestError{Reason: fmt.Sprintf("The table can't be read: %s; put texts with commas or quotes in "+
					"double quotes.", err)}
		}
		if !begun {
			if header, ok := readHeader(record); ok {
				columns = header
				continue
			}
		}
		if len(rows) == tableLimit {
			return nil, &RequestError{Reason: fmt.Sprintf("The table has more than %d rows; give it in parts.",
				tableLimit)}
		}
		line, _ := reader.FieldPos(0)
		row := readRow(columns, record)
		row.Line = line
		if before := names[row.Desired.Name]; before > 0 && row.Err == nil {
			row.Err = fmt.Errorf("line %d has the name %s too", before, row.Desired.Name)
		}
		names[row.Desired.Name] = line
		rows = append(rows, row)
	}
	if len(rows) == 0 {
		return nil, &RequestError{Reason: "The table has no rows; its columns are " + strings.Join(tableColumns, ",") +
			"."}
	}
	return rows, nil
}

// readHeader reads the names of columns; false for a row that is no header.
func readHeader(record []string) ([]string, bool) {
	columns := make([]string, len(record))
	for i, cell := range record {
		columns[i] = tableNames[strings.ToLower(strings.NewReplacer(" ", "", "-", "", "_", "").Replace(cell))]
	}
	return columns, slices.Contains(columns, "address") && slices.Contains(columns, "name")
}

func readRow(columns, record []string) TableRow {
	var row TableRow
	d := &row.Desired
	if len(record) > len(columns) {
		row.Err = fmt.Errorf("the row has %d columns, and there are %d: %s", len(record), len(columns),
			strings.Join(columns, ","))
	}
	for i, cell := range record[:min(len(record), len(columns))] {
		cell = strings.TrimSpace(cell)
		switch columns[i] {
		case "name":
			d.Name = cell
		case "address":
			if d.Address = cell; cell != "" && !strings.Contains(cell, ":/") {
				d.Address = "redfish-virtualmedia://" + cell
			}
		case "username":
			d.Username = cell
		case "password":
			d.Password = cell
		case "boot_mac":
			d.BootMAC = cell
		case "infra_env":
			row.InfraEnv = cell
		case "boot_mode":
			d.BootMode = cell
		case "skip_verify":
			truth, err := readTruth(cell)
			if err != nil {
				row.Err = errors.Join(row.Err, err)
			}
			d.SkipVerify = truth
		}
	}
	checked, err := d.checked()
	if err == nil {
		row.Desired = checked
	}
	row.Err = errors.Join(row.Err, err)
	return row
}

func readTruth(cell string) (bool, error) {
	switch strings.ToLower(cell) {
	case "", "no", "n":
		return false, nil
	case "yes", "y", "x":
		return true, nil
	}
	truth, err := strconv.ParseBool(strings.ToLower(cell))
	if err != nil {
		return false, fmt.Errorf("skip_verify is %q; it is true or false", cell)
	}
	return truth, nil
}
