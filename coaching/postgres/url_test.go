package postgres

import (
	"strings"
	"testing"
)

func TestErrorsOfURLsShowNoPartOfPassword(t *testing.T) {
	for _, url := range []string{
		"postgres://u:SECRET@SECRET/SECRET@host/db",
		"postgres://u:SECRET/SECRET@host/db",
		"postgres://u:12345/SECRET@host/db",
		"postgres://u:SECRET@SECRET@host/db",
		"postgres://u:SECRET?SECRET@host/db",
		"postgres://u:12345?SECRET@host/db",
		"postgres://u:SECRET#SECRET@host/db",
		"postgres://u:12345#SECRET@host/db",
		"postgres://u:SECRET%SECRET@host/db",
		"postgres://u:SECRET SECRET@host/db",
		"postgres://u:SECRET\\SECRET@host/db",
		"postgres://u:[SECRET@host/db",
		"postgresql://u:SECRET@host:port/db",
		"postgres://u:SECRET@host/db?sslmode=SURE",
		"postgres://host/db?user=u&password=SECRET&sslmode=SURE",
		"postgres://u:SECRET@host/db?pool_max_conns=many",
		"postgres:/u:SECRET@host/db",
		"mysql://u:SECRET@host/db",
		"host=h password=SECRET",
	} {
		err := Check(url)
		if err == nil {
			t.Errorf("%s is accepted", url)
			continue
		}
		for _, text := range []string{err.Error(), SafeURL(url)} {
			if strings.Contains(text, "SECRET") || strings.Contains(text, "12345") {
				t.Errorf("%s: %s", url, text)
			}
		}
	}
}

func TestURLsWithEncodedPasswordsAreAccepted(t *testing.T) {
	for url, shown := range map[string]string{
		"postgres://u:p%40ss%2Fw@host/db":                        "postgres://u@host:5432/db",
		"postgres://u:p:q@host:5433/db":                          "postgres://u@host:5433/db",
		"postgres://host/db?user=u%40h&password=a@b":             "postgres://u@h@host:5432/db",
		"postgres:///db?host=/run/postgresql&user=u":             "postgres://u@/run/postgresql:5432/db",
		"postgres://u@h1:1,h2:2/db?target_session_attrs=primary": "postgres://u@h1:1/db",
	} {
		if err := Check(url); err != nil {
			t.Errorf("%s: %v", url, err)
		}
		if got := SafeURL(url); got != shown {
			t.Errorf("%s is shown as %s, want %s", url, got, shown)
		}
	}
}

func TestErrorOfURLNamesItsSetting(t *testing.T) {
	for url, want := range map[string]string{
		"postgres://u:p@host/db?sslmode=sure":        "sslmode is invalid",
		"postgres://u:p@host/db?pool_max_conns=many": "pool_max_conns",
		"postgres://u:p@ss/w@host/db":                "%40",
	} {
		if err := Check(url); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", url, err, want)
		}
	}
}
