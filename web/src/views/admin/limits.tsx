import { api, got } from "../../api/client";
import { bytes, figure } from "../../format";
import { useLoaded } from "../../ui/loaded";
import { Loading } from "../../ui/loading";
import { Table } from "../../ui/table";

/** What each user may have at once, and has. */
export function Limits() {
  const limits = useLoaded(() => got(api.GET("/v1/limits")), [], 5000);
  if (!limits) return <Loading />;
  return (
    <>
      <Table
        label="Users and their limits"
        records={limits}
        keyOf={(each) => each.user}
        columns={[
          { name: "User", of: (each) => (each.user === "*" ? "everybody else" : <a href={`/?q=${encodeURIComponent(`user:${each.user}`)}`}>{each.user}</a>) },
          { name: "Live jobs", number: true, of: (each) => `${each.live} of ${each.jobs}` },
          { name: "Their size", number: true, of: (each) => `${bytes(each.used)} of ${bytes(each.size)}` },
          { name: "Submissions", number: true, of: (each) => `${each.submissions} a minute` },
          { name: "Device-hours this month", number: true, of: (each) => (each.device_hours ? `${figure(each.device_hours_used)} of ${figure(each.device_hours)}` : figure(each.device_hours_used)) },
        ]}
      />
      <p class="teach">
        Change them with <code>muster limit set ada --jobs 50</code>.
      </p>
    </>
  );
}
