-- SCIM filters as SQL. RFC 7644, 3.4.2.2.
--
-- The service parses a filter, checks each attribute against the schema, and sends a tree. Here the tree
-- becomes a condition whose text holds nothing of the client's: each value is fetched from the tree itself,
-- which is a parameter, by a path that is made of positions. Every comparison is true or false, never null.
--
-- A node is {"and": [node…]}, {"or": […]}, {"not": [node]}, {"any": source, "where": [node]} (some element of
-- a multi-valued attribute), or {"op", "type", "value"} with "column" or "path": a column of the resource, or
-- where in its attributes.

-- app.scim_operand: what a comparison is about --------------------------------------------------------------
-- `p_item`: whether it is about an element of a multi-valued attribute.
create function app.scim_operand(p_node jsonb, p_at text, p_item boolean)
returns text
language plpgsql
immutable
set search_path = ''
as $$
begin
  if p_item then
    return format('(e.item #>> array(select jsonb_array_elements_text(%s -> ''path'')))', p_at);
  end if;
  return case p_node ->> 'column'
    when 'id' then 'r.id::text'
    when 'user_name' then 'r.user_name'
    when 'display_name' then 'r.display_name'
    when 'external_id' then 'r.external_id'
    when 'active' then 'r.active::text'
    when 'created_at' then 'app.iso(r.created_at)'
    when 'updated_at' then 'app.iso(r.updated_at)'
    else format('(r.attributes #>> array(select jsonb_array_elements_text(%s -> ''path'')))', p_at)
  end;
end
$$;
revoke execute on function app.scim_operand(jsonb, text, boolean) from public, anon, authenticated;

-- app.scim_comparison: one comparison. "type" is text (case does not matter), exact, boolean or instant -----
create function app.scim_comparison(p_node jsonb, p_at text, p_item boolean)
returns text
language plpgsql
immutable
set search_path = ''
as $$
declare
  v_folded boolean := p_node ->> 'type' = 'text';
  v_left text := app.scim_operand(p_node, p_at, p_item);
  v_right text := format('(%s ->> ''value'')', p_at);
  v_sign text := case p_node ->> 'op'
    when 'gt' then '>' when 'ge' then '>=' when 'lt' then '<' when 'le' then '<=' end;
begin
  if p_node ->> 'op' = 'pr' then
    return format('coalesce(%s <> '''', false)', v_left);
  end if;
  if v_folded then
    v_left := format('lower(%s)', v_left);
    v_right := format('lower(%s)', v_right);
  end if;
  return case p_node ->> 'op'
    when 'eq' then format('coalesce(%s = %s, false)', v_left, v_right)
    when 'ne' then format('(%s is distinct from %s)', v_left, v_right)
    when 'co' then format('coalesce(position(%s in %s) > 0, false)', v_right, v_left)
    when 'sw' then format('coalesce(starts_with(%s, %s), false)', v_left, v_right)
    when 'ew' then format('coalesce(right(%1$s, length(%2$s)) = %2$s, false)', v_left, v_right)
    -- Instants are spelled alike, so that their text has their order.
    else format('coalesce(%s collate "C" %s %s collate "C", false)', v_left, v_sign, v_right)
  end;
end
$$;
revoke execute on function app.scim_comparison(jsonb, text, boolean) from public, anon, authenticated;

-- app.scim_condition: a tree as a condition on a row `r`, with the whole tree as parameter 1 ----------------
-- `p_path` is where the node stands in the tree: words of ours and positions.
create function app.scim_condition(p_node jsonb, p_path text, p_item boolean)
returns text
language plpgsql
immutable
set search_path = ''
as $$
declare
  v_join text := case
    when p_node ? 'and' then 'and' when p_node ? 'or' then 'or' when p_node ? 'not' then 'not' end;
  v_parts text[];
begin
  if p_node ? 'any' then
    return format('exists (select from %s as e (item) where %s)',
      case p_node ->> 'any'
        when 'groups' then
          '(select jsonb_build_object(''value'', g.id, ''display'', g.display_name)
              from app.scim_group_members m join app.scim_groups g on g.id = m.group_id
             where m.team_id = r.team_id and m.user_id = r.id)'
        when 'members' then
          '(select jsonb_build_object(''value'', m.user_id, ''type'', ''User'')
              from app.scim_group_members m
             where m.team_id = r.team_id and m.group_id = r.id)'
        else format(
          'jsonb_array_elements(coalesce(r.attributes -> ($1 #>> ''{%s}''), ''[]''))', p_path || ',any')
      end,
      app.scim_condition(p_node -> 'where' -> 0, p_path || ',where,0', true));
  elsif v_join is null then
    return app.scim_comparison(p_node, format('($1 #> ''{%s}'')', p_path), p_item);
  end if;
  select array_agg(
           app.scim_condition(n.node, format('%s,%s,%s', p_path, v_join, n.place - 1), p_item)
           order by n.place)
    into v_parts
    from jsonb_array_elements(p_node -> v_join) with ordinality as n (node, place);
  return case v_join
    when 'not' then format('(not %s)', v_parts[1])
    else '(' || array_to_string(v_parts, ' ' || v_join || ' ') || ')'
  end;
end
$$;
revoke execute on function app.scim_condition(jsonb, text, boolean) from public, anon, authenticated;

-- app.scim_where: the condition of a whole filter; null lets everything through -----------------------------
-- The tree is wrapped as {"filter": tree}, so that every path begins with a word.
create function app.scim_where(p_filter jsonb)
returns text
language sql
immutable
set search_path = ''
as $$
  select case
    when p_filter is null then 'true'
    else app.scim_condition(p_filter -> 'filter', 'filter', false)
  end
$$;
revoke execute on function app.scim_where(jsonb) from public, anon, authenticated;
