-- Old claims are found by walking through the table. Rows reuse the pages of those that went, and a block-range
-- index only widens its ranges: after some days each range holds an old time, and the planner still trusts it.
drop index claims_time;
